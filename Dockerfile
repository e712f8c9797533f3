# The worker. docker build .                  on vLLM's own image, for NVIDIA GPUs
#             docker build --target cpu .     on a slim Python, for machines without one
# The tools.  docker build --target tools .   publish, get, watch, verify, replay: neither torch nor vLLM
#
# tini is the first process of each: it hands signals on, and reaps what an engine that was killed leaves behind.

FROM python:3.12-slim-bookworm AS cpu
# vLLM's CPU build is linked to libnuma, and compiles each model with g++ when it starts. Debian keeps no older versions.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --no-install-recommends -y g++ libnuma1 tini && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir uv==0.13.9
WORKDIR /opt/scorestream
COPY pyproject.toml README.md LICENSE ./
COPY schemas schemas
COPY consumer consumer
COPY producer_tools producer_tools
# The worker's user cannot write bytecode here: without, each process of an engine compiles torch and vLLM at every start.
RUN uv pip install --system --no-cache --compile-bytecode --torch-backend cpu ".[cpu]" \
    && mkdir -p /home/scorestream/.cache/huggingface && chown -R 2000:0 /home/scorestream
USER 2000:0
# The user has no name in /etc/passwd; torch asks for one.
ENV HOME=/home/scorestream USER=scorestream
WORKDIR /home/scorestream
# The orchestrator asks the worker itself for liveness and readiness.
HEALTHCHECK NONE
ENTRYPOINT ["tini", "-s", "--", "scorestream"]
CMD ["run"]

FROM python:3.12-slim-bookworm AS tools
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --no-install-recommends -y tini && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir uv==0.13.9
WORKDIR /opt/scorestream
COPY pyproject.toml README.md LICENSE ./
COPY schemas schemas
COPY consumer consumer
COPY producer_tools producer_tools
RUN uv pip install --system --no-cache .
USER 2000:0
ENV HOME=/tmp
WORKDIR /tmp
HEALTHCHECK NONE
ENTRYPOINT ["tini", "-s", "--", "scorestream"]
CMD ["--help"]

FROM vllm/vllm-openai:v0.32.0 AS cuda
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --no-install-recommends -y tini && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/scorestream
COPY pyproject.toml README.md LICENSE ./
COPY schemas schemas
COPY consumer consumer
COPY producer_tools producer_tools
# What the image pins, above all vLLM's own dependencies, stays as it was tested there: only what is missing is added.
RUN uv pip freeze --system > /tmp/image.txt \
    && uv pip install --system --no-cache --compile-bytecode --constraint /tmp/image.txt . \
    && rm /tmp/image.txt \
    && mkdir -p /home/scorestream/.cache/huggingface && chown -R 2000:0 /home/scorestream
USER 2000:0
ENV HOME=/home/scorestream USER=scorestream
WORKDIR /home/scorestream
HEALTHCHECK NONE
ENTRYPOINT ["tini", "-s", "--", "scorestream"]
CMD ["run"]
