{{/* What works and may not be meant, one a line, each with what to do. NOTES.txt shows them. */}}
{{- define "scorestream.warnings" -}}
{{- $settings := include "scorestream.settings" . | fromYaml -}}
{{- $workers := int (include "scorestream.workers" .) -}}
{{- $all := mul $workers (int .Values.replicaCount) -}}
{{- if and (eq .Values.autoscaling.mode "none") (gt $all (int .Values.autoscaling.partitions)) }}
{{ $all }} workers read {{ .Values.autoscaling.partitions }} partitions (autoscaling.partitions), and a partition is read by one worker: {{ sub $all (int .Values.autoscaling.partitions) }} have nothing to do until another ends. Lower replicaCount or workersPerGpu, give the topics more partitions, or set autoscaling.partitions to what they have.
{{- end }}
{{- if and (gt (int .Values.workersPerGpu) 1) (or (int .Values.gpu.count) .Values.resources.claims) (eq $settings.engine.kind "vllm") (not (dig "kv_cache_memory_bytes" "" ($settings.engine.args | default dict))) }}
{{ .Values.workersPerGpu }} workers share a GPU and config.engine.args.kv_cache_memory_bytes is not set: their engines start one after the other, because vLLM measures free memory while it starts. Set it, so that they start together.
{{- end }}
{{- with .Values.containerSecurityContext }}
{{- if .allowPrivilegeEscalation }}
containerSecurityContext.allowPrivilegeEscalation is true: the worker needs no more rights than it starts with.
{{- end }}
{{- with dig "capabilities" "add" list . }}
containerSecurityContext.capabilities.add is {{ join ", " . }}: the worker needs none.
{{- end }}
{{- if eq (toString .readOnlyRootFilesystem) "false" }}
containerSecurityContext.readOnlyRootFilesystem is false: every place that the worker writes to is a volume.
{{- end }}
{{- end }}
{{- range $field := list "hostNetwork" "hostPID" "hostIPC" }}
{{- if get $.Values.extraPodSpec $field }}
extraPodSpec.{{ $field }} is true: the worker does not need the node's own.
{{- end }}
{{- end }}
{{- end -}}
