{{- define "scorestream.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 52 characters, so that suffixes fit into 63. */}}
{{- define "scorestream.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "scorestream.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "scorestream.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "scorestream.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "scorestream.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Of the release: never the version, because a Deployment's selector cannot change. */}}
{{- define "scorestream.releaseLabels" -}}
app.kubernetes.io/name: {{ include "scorestream.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Of the workers' pods alone. */}}
{{- define "scorestream.selectorLabels" -}}
{{ include "scorestream.releaseLabels" . }}
app.kubernetes.io/component: worker
{{- end -}}

{{- define "scorestream.labels" -}}
{{- include "scorestream.labelsAnd" (list . dict) -}}
{{- end -}}

{{/* Of any object, and more of this one: (list . .Values.podMonitor.labels). What is said for one wins. */}}
{{- define "scorestream.labelsAnd" -}}
{{- $root := first . -}}
{{- $labels := include "scorestream.releaseLabels" $root | fromYaml -}}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") -}}
{{- $_ := set $labels "app.kubernetes.io/version" $root.Chart.AppVersion -}}
{{- $_ := set $labels "app.kubernetes.io/part-of" "scorestream" -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- merge (dict) $labels (last .) $root.Values.commonLabels | toYaml -}}
{{- end -}}

{{/* Of the pods; no version: an upgrade of the chart alone would replace pods that are the same. */}}
{{- define "scorestream.podLabels" -}}
{{- merge (include "scorestream.selectorLabels" . | fromYaml) .Values.podLabels .Values.commonLabels | toYaml -}}
{{- end -}}

{{- define "scorestream.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}
