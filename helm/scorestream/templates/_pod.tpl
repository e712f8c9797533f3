{{/* Where the worker reads and writes. The root file system is read-only: everything else is one of these volumes. */}}
{{- define "scorestream.volumes" -}}
- name: config
  configMap:
    name: {{ include "scorestream.fullname" . }}
- name: models
  {{- with .Values.modelCache }}
  {{- if eq .type "emptyDir" }}
  emptyDir:
    sizeLimit: {{ .size }}
  {{- else }}
  persistentVolumeClaim:
    claimName: {{ eq .type "create" | ternary (printf "%s-models" (include "scorestream.fullname" $)) .existingClaim }}
  {{- end }}
  {{- end }}
- name: home
  emptyDir:
    sizeLimit: {{ .Values.scratch.sizeLimit }}
- name: tmp
  emptyDir:
    sizeLimit: {{ .Values.scratch.sizeLimit }}
- name: shared-memory
  emptyDir:
    medium: Memory
    sizeLimit: {{ .Values.sharedMemory.sizeLimit }}
{{- range .Values.existingSecrets.files }}
- name: secret-{{ .name | replace "." "-" | trunc 56 }}
  secret:
    secretName: {{ .name }}
    # For the pod's fsGroup.
    defaultMode: 0440
    {{- with .items }}
    items:
      {{- toYaml . | nindent 6 }}
    {{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "scorestream.volumeMounts" -}}
- name: config
  mountPath: /etc/scorestream/config
  readOnly: true
- name: home
  mountPath: /home/scorestream
- name: models
  # Not inside the home folder: what lies between would belong to root.
  mountPath: /var/cache/huggingface
- name: tmp
  mountPath: /tmp
- name: shared-memory
  mountPath: /dev/shm
{{- range .Values.existingSecrets.files }}
- name: secret-{{ .name | replace "." "-" | trunc 56 }}
  mountPath: /etc/scorestream/secrets/{{ .name }}
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "scorestream.env" -}}
- name: SCORESTREAM_CONFIG
  value: /etc/scorestream/config/scorestream.yaml
- name: HF_HOME
  value: /var/cache/huggingface
{{- range $setting, $secret := .Values.existingSecrets.settings }}
- name: {{ include "scorestream.variable" $setting }}
  valueFrom:
    secretKeyRef:
      name: {{ $secret.name }}
      key: {{ $secret.key }}
{{- end }}
{{- with .Values.existingSecrets.huggingFace }}
- name: HF_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ .name }}
      key: {{ .key }}
{{- end }}
{{- if .Values.modelCache.offline }}
- name: HF_HUB_OFFLINE
  value: "1"
{{- end }}
{{- with .Values.tracing.endpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . | quote }}
- name: OTEL_EXPORTER_OTLP_PROTOCOL
  value: {{ $.Values.tracing.protocol }}
- name: OTEL_SERVICE_NAME
  value: {{ include "scorestream.fullname" $ }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/*
Requests that the user leaves out are those of the workers: 2 cores each (one for the worker, one for its engine), and
the memory of docs/scale.md. Where there is a limit, Kubernetes takes it for the request.
*/}}
{{- define "scorestream.resources" -}}
{{- $resources := deepCopy .Values.resources -}}
{{- $workers := int (include "scorestream.workers" .) -}}
{{- $memory := (include "scorestream.settings" . | fromYaml).limits.memory_bytes -}}
{{- $mebibytes := mul $workers (add 6144 (div (int64 $memory) 1048576)) -}}
{{- $requests := deepCopy $resources.requests -}}
{{- range $name, $request := dict "cpu" (toString (mul 2 $workers)) "memory" (printf "%dMi" $mebibytes) -}}
{{- if not (or (hasKey $requests $name) (hasKey $resources.limits $name)) }}{{ $_ := set $requests $name $request }}{{ end -}}
{{- end -}}
{{- $_ := set $resources "requests" $requests -}}
{{- if .Values.gpu.count -}}
{{- $gpus := dict .Values.gpu.resourceName (int .Values.gpu.count) -}}
{{- $_ := set $resources "requests" (merge (dict) $resources.requests $gpus) -}}
{{- $_ := set $resources "limits" (merge (dict) $resources.limits $gpus) -}}
{{- end -}}
{{- if not $resources.claims }}{{ $_ := unset $resources "claims" }}{{ end -}}
{{- toYaml $resources -}}
{{- end -}}

{{- define "scorestream.probe" -}}
httpGet:
  path: {{ .path }}
  port: health
periodSeconds: {{ .probe.periodSeconds }}
timeoutSeconds: {{ .probe.timeoutSeconds }}
failureThreshold: {{ .probe.failureThreshold }}
{{- end -}}

{{/* As the user wrote them; one without a selector means this release's pods of one version. */}}
{{- define "scorestream.topologySpreadConstraints" -}}
{{- $selector := dict "matchLabels" (include "scorestream.selectorLabels" . | fromYaml) -}}
{{- $constraints := list -}}
{{- range .Values.topologySpreadConstraints -}}
{{- $whole := hasKey . "labelSelector" | ternary . (merge (dict "labelSelector" $selector "matchLabelKeys" (list "pod-template-hash")) .) -}}
{{- $constraints = append $constraints $whole -}}
{{- end -}}
{{- toYaml $constraints -}}
{{- end -}}
