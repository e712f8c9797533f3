{{/* Space-separated: those that were set, else those of the bootstrap servers. */}}
{{- define "scorestream.kafkaPorts" -}}
{{- if .Values.networkPolicy.kafka.ports -}}
{{- join " " .Values.networkPolicy.kafka.ports -}}
{{- else -}}
{{- regexFindAll ":[0-9]+" (dig "kafka" "bootstrap_servers" "" .Values.config) -1 | join " " | replace ":" "" | splitList " " | uniq | join " " -}}
{{- end -}}
{{- end -}}

{{/* The port of an http or https URL. */}}
{{- define "scorestream.urlPort" -}}
{{- $host := (urlParse .).host -}}
{{- regexFind ":[0-9]+$" $host | trimPrefix ":" | default (hasPrefix "https:" . | ternary "443" "80") -}}
{{- end -}}

{{/*
Space-separated: those that were set, else those of redis.url; none when it stands in a Secret, or names Sentinels, which
do not say before on which port the master listens.
*/}}
{{- define "scorestream.redisPorts" -}}
{{- $url := dig "redis" "url" "" .Values.config -}}
{{- if .Values.networkPolicy.redis.ports -}}
{{- join " " .Values.networkPolicy.redis.ports -}}
{{- else if and $url (not (contains "sentinel" $url)) -}}
{{- $ports := list -}}
{{- range regexFindAll ":[0-9]+([,/?]|$)" $url -1 }}{{ $ports = append $ports (regexFind "[0-9]+" .) }}{{ end -}}
{{- $ports | uniq | join " " | default "6379" -}}
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
