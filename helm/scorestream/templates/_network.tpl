{{/* Space-separated: those that were set, else those of the bootstrap servers. */}}
{{- define "scorestream.kafkaPorts" -}}
{{- if .Values.networkPolicy.kafka.ports -}}
{{- join " " .Values.networkPolicy.kafka.ports -}}
{{- else -}}
{{- regexFindAll ":[0-9]+" (dig "kafka" "bootstrap_servers" "" .Values.config) -1 | join " " | replace ":" "" | splitList " " | uniq | join " " -}}
{{- end -}}
{{- end -}}

{{/* Space-separated: those that were set, else that of redis.url; none when it stands in a Secret. */}}
{{- define "scorestream.redisPorts" -}}
{{- $url := dig "redis" "url" "" .Values.config -}}
{{- if .Values.networkPolicy.redis.ports -}}
{{- join " " .Values.networkPolicy.redis.ports -}}
{{- else if $url -}}
{{- regexFind ":[0-9]+(/|\\?|$)" $url | default ":6379" | regexFind "[0-9]+" -}}
{{- end -}}
{{- end -}}

{{- define "scorestream.egress" -}}
- ports:
    {{- range splitList " " .ports }}
    - protocol: TCP
      port: {{ . }}
    {{- end }}
  {{- with .to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
