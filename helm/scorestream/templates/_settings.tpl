{{/* The worker's settings in force, as YAML: those of `config` over the worker's own defaults. */}}
{{- define "scorestream.settings" -}}
{{- $defaults := .Files.Get "files/settings-defaults.yaml" | fromYaml -}}
{{- mustMergeOverwrite $defaults (include "scorestream.given" . | fromYaml) | toYaml -}}
{{- end -}}

{{/* `config`, with the words on and off where YAML made booleans of them. */}}
{{- define "scorestream.given" -}}
{{- $config := deepCopy .Values.config -}}
{{- range $section, $name := dict "workers" "mps" "redis" "notify" -}}
{{- $value := dig $section $name "" $config -}}
{{- if kindIs "bool" $value }}{{ $_ := set (get $config $section) $name (ternary "on" "off" $value) }}{{ end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* The value at a dotted path of a tree: (dict "tree" .Values.config "path" "kafka.security.ca_file"); else nothing. */}}
{{- define "scorestream.at" -}}
{{- $node := .tree -}}
{{- range splitList "." .path -}}
{{- $node = kindIs "map" $node | ternary (get (default dict $node) .) "" -}}
{{- end -}}
{{- default "" $node -}}
{{- end -}}

{{/* Bytes of a quantity such as 16Gi, 500M or 1.5G. */}}
{{- define "scorestream.bytes" -}}
{{- $powers := dict "m" 0.001 "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976 -}}
{{- $text := kindIs "string" . | ternary (toString .) (printf "%.0f" (float64 .)) -}}
{{- $unit := regexFind "[A-Za-z]*$" $text -}}
{{- mulf (float64 (trimSuffix $unit $text)) (get $powers $unit) | int64 -}}
{{- end -}}

{{/* Milliseconds of a duration such as 15s or 1m30s, as Prometheus writes them. */}}
{{- define "scorestream.milliseconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 "w" 604800000 -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9]+(ms|s|m|h|d|w)" . -1 -}}
{{- $unit := regexFind "[a-z]+" . -}}
{{- $sum = add $sum (mul (int64 (trimSuffix $unit .)) (get $units $unit)) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* GPUs that one engine spans. */}}
{{- define "scorestream.gpusPerEngine" -}}
{{- $args := dig "engine" "args" dict .Values.config -}}
{{- max 1 (mul (int (dig "tensor_parallel_size" 1 $args)) (int (dig "pipeline_parallel_size" 1 $args))) -}}
{{- end -}}

{{/* Processes of a pod, each with an engine of its own. */}}
{{- define "scorestream.workers" -}}
{{- max 1 (div (mul (max 1 (int .Values.gpu.count)) (int .Values.workersPerGpu)) (int (include "scorestream.gpusPerEngine" .))) -}}
{{- end -}}

{{/*
Seconds from SIGTERM to the end at the most: what is in flight is finished, the last commit, leaving the group; then, at
most, 10 for closing two producers, 30 for the engine and its processes, and 10 to spare. The MPS daemon quits after that.
*/}}
{{- define "scorestream.graceNeeded" -}}
{{- $settings := include "scorestream.settings" . | fromYaml -}}
{{- $daemon := eq $settings.workers.mps "on" | ternary 30 0 -}}
{{- ceil (addf $settings.shutdown.drain_seconds (mulf 2 $settings.commit.timeout_seconds) 50 $daemon) -}}
{{- end -}}

{{- define "scorestream.grace" -}}
{{- default (include "scorestream.graceNeeded" .) .Values.terminationGracePeriodSeconds | int -}}
{{- end -}}

{{/* A partition is read by one worker, so more pods than this would idle. */}}
{{- define "scorestream.usefulReplicas" -}}
{{- max 1 (div (int .Values.autoscaling.partitions) (int (include "scorestream.workers" .))) -}}
{{- end -}}

{{- define "scorestream.maxReplicas" -}}
{{- default (include "scorestream.usefulReplicas" .) .Values.autoscaling.maxReplicas | int -}}
{{- end -}}

{{/* Records of lag per pod: what its workers score in backlogSeconds. */}}
{{- define "scorestream.lagThreshold" -}}
{{- with .Values.autoscaling -}}
{{- if .lagThreshold -}}
{{- int .lagThreshold -}}
{{- else -}}
{{- mulf .recordsPerSecondPerWorker .backlogSeconds (include "scorestream.workers" $) | floor | int | max 1 -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* SCORESTREAM_REDIS__URL for redis.url. */}}
{{- define "scorestream.variable" -}}
SCORESTREAM_{{ . | replace "." "__" | upper }}
{{- end -}}

{{/* What the worker reads: `config`, and what the chart knows better. */}}
{{- define "scorestream.config" -}}
{{- $config := include "scorestream.given" . | fromYaml -}}
{{- $workers := dict "count" (int (include "scorestream.workers" .)) -}}
{{- $_ := set $config "workers" (merge $workers (default dict $config.workers)) -}}
{{- toYaml $config -}}
{{- end -}}
