{{/* Slowly down, in steps up: each change of the number of members stops the whole group for a moment. */}}
{{- define "scorestream.scalingBehavior" -}}
scaleUp:
  policies:
    - type: Pods
      value: {{ .Values.autoscaling.scaleUpPods }}
      periodSeconds: {{ .Values.autoscaling.scaleUpPeriodSeconds }}
scaleDown:
  stabilizationWindowSeconds: {{ .Values.autoscaling.scaleDownStabilizationSeconds }}
  policies:
    - type: Pods
      value: 1
      periodSeconds: {{ .Values.autoscaling.scaleUpPeriodSeconds }}
{{- end -}}

{{- define "scorestream.recordAgeQuery" -}}
{{- default (printf "max(scorestream_partition_oldest_age_seconds{%s})" (include "scorestream.metricsSelector" .)) .Values.autoscaling.keda.recordAge.query -}}
{{- end -}}
