{{/* The labels that the PodMonitor gives to this release's targets. */}}
{{- define "scorestream.metricsSelector" -}}
{{- default (printf "namespace=%q,job=\"%s/%s\"" .Release.Namespace .Release.Namespace (include "scorestream.fullname" .)) .Values.metrics.selector -}}
{{- end -}}

{{/* Alerts by name, each with what the values say about it; without those that are off or cannot mean anything here. */}}
{{- define "scorestream.alerts" -}}
{{- $alerts := dict -}}
{{- range $name, $alert := .Files.Get "files/alerts.yaml" | fromYaml -}}
{{- $alert = mustMergeOverwrite (dict "enabled" true) $alert (get $.Values.metrics.prometheusRule.alerts $name | default dict | deepCopy) -}}
{{- $fromNone := and (ne $.Values.autoscaling.mode "none") (eq (int $.Values.autoscaling.minReplicas) 0) -}}
{{- if and $alert.enabled (not (and $fromNone (eq $name "ScorestreamAbsent"))) -}}
{{- $_ := set $alerts $name $alert -}}
{{- end -}}
{{- end -}}
{{- toYaml $alerts -}}
{{- end -}}
