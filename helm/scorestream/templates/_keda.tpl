{{/* Secret and key of a file that existingSecrets.files mounts, as YAML; nothing for any other path. */}}
{{- define "scorestream.secretOfFile" -}}
{{- if regexMatch "^/etc/scorestream/secrets/[^/]+/.+$" . -}}
{{- $parts := splitn "/" 6 . -}}
{{- dict "name" $parts._4 "key" $parts._5 | toYaml -}}
{{- end -}}
{{- end -}}

{{/* What KEDA calls the SASL mechanism. */}}
{{- define "scorestream.kedaSasl" -}}
{{- get (dict "PLAIN" "plaintext" "SCRAM-SHA-256" "scram_sha256" "SCRAM-SHA-512" "scram_sha512" "OAUTHBEARER" "oauthbearer") . -}}
{{- end -}}

{{/* What KEDA has to know of the worker's credentials and is no secret, as YAML: its parameters by name. */}}
{{- define "scorestream.kedaParameters" -}}
{{- $security := (include "scorestream.settings" . | fromYaml).kafka.security -}}
{{- $parameters := dict -}}
{{- if $security.username }}{{ $_ := set $parameters "username" $security.username }}{{ end -}}
{{- if $security.token_endpoint }}{{ $_ := set $parameters "oauthTokenEndpointUri" $security.token_endpoint }}{{ end -}}
{{- if $security.token_scope }}{{ $_ := set $parameters "scopes" (splitList " " $security.token_scope | join ",") }}{{ end -}}
{{- if $security.sasl_extensions }}{{ $_ := set $parameters "oauthExtensions" (join "," $security.sasl_extensions) }}{{ end -}}
{{- toYaml $parameters -}}
{{- end -}}

{{/* And what is: its parameters with the Secrets and keys that the worker itself reads. */}}
{{- define "scorestream.kedaSecrets" -}}
{{- $security := (include "scorestream.settings" . | fromYaml).kafka.security -}}
{{- $found := list -}}
{{- range $parameter, $setting := dict "password" "password" "keyPassword" "key_password" -}}
{{- with get $.Values.existingSecrets.settings (printf "kafka.security.%s" $setting) -}}
{{- $found = append $found (dict "parameter" $parameter "name" .name "key" .key) -}}
{{- end -}}
{{- end -}}
{{- $files := dict "password" $security.password_file "ca" $security.ca_file "cert" $security.certificate_file "key" (default $security.certificate_file $security.key_file) -}}
{{- range $parameter, $path := $files -}}
{{- with include "scorestream.secretOfFile" (default "" $path) | fromYaml -}}
{{- if .name -}}
{{- $found = append $found (dict "parameter" $parameter "name" .name "key" .key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $found -}}
{{- end -}}

{{/* The name of the TriggerAuthentication for Kafka, as a reference; nothing where Kafka asks for nothing. */}}
{{- define "scorestream.kedaAuthenticationRef" -}}
{{- if .Values.autoscaling.keda.authenticationRef -}}
{{- toYaml .Values.autoscaling.keda.authenticationRef -}}
{{- else if or (include "scorestream.kedaParameters" . | fromYaml) (include "scorestream.kedaSecrets" . | fromYamlArray) -}}
name: {{ include "scorestream.fullname" . }}
{{- end -}}
{{- end -}}
