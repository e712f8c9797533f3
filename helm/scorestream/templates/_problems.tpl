{{/*
Everything that cannot work, one problem a line, each with its fix. What a schema can say stands in values.schema.json;
what the worker's settings must satisfy among themselves, the worker says at its start and `scorestream check` before.
*/}}
{{- define "scorestream.problems" -}}
{{- include "scorestream.problems.required" . -}}
{{- include "scorestream.problems.settings" . -}}
{{- include "scorestream.problems.secretFiles" . -}}
{{- include "scorestream.problems.environment" . -}}
{{- include "scorestream.problems.stopping" . -}}
{{- include "scorestream.problems.storage" . -}}
{{- include "scorestream.problems.resources" . -}}
{{- include "scorestream.problems.security" . -}}
{{- include "scorestream.problems.scaling" . -}}
{{- include "scorestream.problems.surroundings" . -}}
{{- end -}}

{{- define "scorestream.problems.required" -}}
{{- $settings := include "scorestream.settings" . | fromYaml -}}
{{- if not .Values.image.repository }}
image.repository is empty: build the Dockerfile, push the image, and name it here
{{- else if or (contains "://" .Values.image.repository) (regexMatch "[A-Z ]" .Values.image.repository) }}
image.repository is {{ .Values.image.repository }}: write registry/path, in lower case and without https://
{{- else if regexMatch "(@|:[^/]*$)" .Values.image.repository }}
image.repository is {{ .Values.image.repository }}: leave its tag out and set image.tag, or image.digest
{{- end }}
{{- if not (dig "kafka" "bootstrap_servers" "" .Values.config) }}
config.kafka.bootstrap_servers is empty: set host:port of your brokers, comma-separated
{{- else if regexMatch "[;/]|[^,] +[^, ]" $settings.kafka.bootstrap_servers }}
config.kafka.bootstrap_servers is {{ $settings.kafka.bootstrap_servers }}: write host:port, separated by commas, with nothing before them
{{- end }}
{{- if and (eq $settings.engine.kind "vllm") (not $settings.engine.model) }}
config.engine.model is empty: set a Hugging Face name, or a folder that extraVolumes mounts
{{- end }}
{{- if not (or (dig "redis" "url" "" .Values.config) (index .Values.existingSecrets.settings "redis.url")) }}
redis.url is nowhere: set config.redis.url, or existingSecrets.settings."redis.url" to a Secret's name and key when the URL holds a password
{{- end }}
{{- end -}}

{{- define "scorestream.problems.settings" -}}
{{- $settings := include "scorestream.settings" . | fromYaml -}}
{{- if regexMatch "(^[a-z+]+://.*:.*@|password=)" (dig "redis" "url" "" .Values.config) }}
config.redis.url holds a password, which everyone who may read ConfigMaps could read: put the URL into a Secret and name it in existingSecrets.settings."redis.url"
{{- end }}
{{- with dig "redis" "url" "" .Values.config }}
{{- if not (regexMatch "^(rediss?(\\+(sentinel|cluster))?|unix)://" .) }}
config.redis.url does not begin with a scheme that the worker knows: write redis://host:6379/0, or one of rediss, redis+sentinel, redis+cluster and unix, see docs/secure.md
{{- end }}
{{- end }}
{{- range $setting := .Files.Get "files/secret-settings.yaml" | fromYamlArray }}
{{- $given := include "scorestream.at" (dict "tree" $.Values.config "path" $setting) }}
{{- if and $given (ne $setting "redis.url") }}
config.{{ $setting }} is a secret, which everyone who may read ConfigMaps could read: put it into a Secret and name that in existingSecrets.settings."{{ $setting }}"
{{- end }}
{{- if and $given (hasKey $.Values.existingSecrets.settings $setting) }}
config.{{ $setting }} and existingSecrets.settings."{{ $setting }}" are both set: remove one of them
{{- end }}
{{- end }}
{{- if hasKey (default dict .Values.config.redis) "prefix" }}
{{- $prefix := toString .Values.config.redis.prefix }}
{{- if or (hasPrefix "scorestream:" $prefix) (hasPrefix $prefix "scorestream:") }}
config.redis.prefix is {{ quote $prefix }}: set one that neither begins with scorestream: nor is a beginning of it, such as score:, because a request's id could make it the key of a claim (docs/secure.md)
{{- end }}
{{- end }}
{{- if eq (int $settings.health.port) 0 }}
config.health.port is 0: set a port above 1023, because the kubelet asks there whether the worker lives
{{- else if lt (int $settings.health.port) 1024 }}
config.health.port is {{ $settings.health.port }}: set a port above 1023, because the worker is not root
{{- end }}
{{- if has $settings.health.host (list "127.0.0.1" "localhost" "::1") }}
config.health.host is {{ $settings.health.host }}: remove it, because the kubelet asks from outside the pod
{{- end }}
{{- if $settings.health.unix_socket }}
config.health.unix_socket is {{ $settings.health.unix_socket }}: remove it, because the kubelet asks a port
{{- end }}
{{- if dig "workers" "count" "" .Values.config }}
config.workers.count is {{ .Values.config.workers.count }}: remove it and set workersPerGpu and gpu.count, from which the chart makes it
{{- end }}
{{- $span := int (include "scorestream.gpusPerEngine" .) }}
{{- if and (gt $span 1) (ne (mod (int .Values.gpu.count) $span) 0) }}
gpu.count is {{ .Values.gpu.count }}: set it to a multiple of config.engine.args.tensor_parallel_size x pipeline_parallel_size ({{ $span }}), because an engine spans so many
{{- end }}
{{- if and (eq $settings.workers.mps "on") (le (int (include "scorestream.workers" .)) 1) }}
config.workers.mps is on and a pod has one worker: set workersPerGpu to 2 or more, or remove mps
{{- end }}
{{- if $settings.kafka.group_instance_id }}
config.kafka.group_instance_id is {{ $settings.kafka.group_instance_id }}: remove it, because all pods of this release would use the same id (docs/deploy.md, Static membership)
{{- end }}
{{- range $section := list "kafka" "redis" }}
{{- $setting := printf "%s.security.password" $section }}
{{- if and (hasKey $.Values.existingSecrets.settings $setting) (include "scorestream.at" (dict "tree" $.Values.config "path" (printf "%s_file" $setting))) }}
config.{{ $setting }}_file and existingSecrets.settings."{{ $setting }}" are both set: remove one of them; the file follows a rotation
{{- end }}
{{- end }}
{{- end -}}

{{- define "scorestream.problems.secretFiles" -}}
{{- $mounted := list }}
{{- range .Values.existingSecrets.files }}{{ $mounted = append $mounted .name }}{{ end }}
{{- $made := and (eq .Values.autoscaling.mode "keda") (not .Values.autoscaling.keda.authenticationRef) }}
{{- range $section := list "kafka" "redis" }}
{{- range $name := list "ca_file" "certificate_file" "key_file" "password_file" }}
{{- $setting := printf "%s.security.%s" $section $name }}
{{- $path := include "scorestream.at" (dict "tree" $.Values.config "path" $setting) }}
{{- $secret := include "scorestream.secretOfFile" $path | fromYaml }}
{{- if and $secret.name (not (has $secret.name $mounted)) }}
config.{{ $setting }} is {{ $path }} and existingSecrets.files has no {{ $secret.name }}: add {name: {{ $secret.name }}} there
{{- else if and $path $made (eq $section "kafka") (not $secret.name) }}
config.{{ $setting }} is {{ $path }} and autoscaling.mode is keda: mount it by existingSecrets.files, as /etc/scorestream/secrets/NAME/KEY, so that KEDA can read the Secret too; or set autoscaling.keda.authenticationRef
{{- end }}
{{- end }}
{{- end }}
{{- if and $made (include "scorestream.at" (dict "tree" .Values.config "path" "kafka.security.token_provider")) }}
config.kafka.security.token_provider is set and autoscaling.mode is keda: KEDA cannot run it; make a TriggerAuthentication and name it in autoscaling.keda.authenticationRef
{{- end }}
{{- end -}}

{{- define "scorestream.problems.environment" -}}
{{- range .Values.extraEnv }}
{{- $name := toString .name }}
{{- if not .name }}
extraEnv has an entry without a name: write [{name: ..., value: ...}]
{{- else if and (hasKey . "value") (not (kindIs "string" .value)) }}
extraEnv {{ $name }} is not text: put its value, {{ .value }}, in quotes
{{- else if and (hasPrefix "SCORESTREAM_" (upper $name)) (hasKey . "value") }}
extraEnv {{ $name }} is a setting: set config.{{ $name | lower | trimPrefix "scorestream_" | replace "__" "." }} instead, so that the chart can check it
{{- else if eq (upper $name) "SCORESTREAM_KAFKA__GROUP_INSTANCE_ID" }}
extraEnv {{ $name }}: remove it, because the pods of a Deployment have new names at each rollout, and partitions would wait for the old ones (docs/deploy.md, Static membership)
{{- end }}
{{- end }}
{{- include "scorestream.problems.twice" (dict "what" "the variable" "names" (include "scorestream.env" . | fromYamlArray) "key" "name" "fix" "remove it from extraEnv") -}}
{{- end -}}

{{/* (dict "names" list-of-objects "key" name-of-their-name "what" ... "fix" ...): one problem for each that is there twice. */}}
{{- define "scorestream.problems.twice" -}}
{{- $seen := list }}
{{- range .names }}
{{- $name := get . $.key }}
{{- if has $name $seen }}
{{ $.what }} {{ $name }} would be there twice: {{ $.fix }}
{{- end }}
{{- $seen = append $seen $name }}
{{- end }}
{{- end -}}

{{- define "scorestream.problems.stopping" -}}
{{- $needed := include "scorestream.graceNeeded" . | int }}
{{- if lt (include "scorestream.grace" . | int) $needed }}
terminationGracePeriodSeconds is {{ .Values.terminationGracePeriodSeconds }}: remove it or set it to at least {{ $needed }} (config.shutdown.drain_seconds + 2 x config.commit.timeout_seconds + 50 for the producers and the engine{{ eq (include "scorestream.settings" . | fromYaml).workers.mps "on" | ternary " + 30 for the MPS daemon" "" }}), or workers are killed while they drain
{{- end }}
{{- end -}}

{{- define "scorestream.problems.storage" -}}
{{- $cache := .Values.modelCache }}
{{- $pods := eq .Values.autoscaling.mode "none" | ternary (int .Values.replicaCount) (include "scorestream.maxReplicas" . | int) }}
{{- if and (eq $cache.type "existingClaim") (not $cache.existingClaim) }}
modelCache.existingClaim is empty: name the PersistentVolumeClaim, or set modelCache.type to create or emptyDir
{{- end }}
{{- if and (ne $cache.type "existingClaim") $cache.existingClaim }}
modelCache.existingClaim is {{ $cache.existingClaim }} and modelCache.type is {{ $cache.type }}: set modelCache.type to existingClaim, or remove the claim
{{- end }}
{{- if and (eq $cache.type "create") (not (has "ReadWriteMany" $cache.accessModes)) (gt $pods 1) }}
modelCache.accessModes is {{ join ", " $cache.accessModes }} and there may be {{ $pods }} pods: set ReadWriteMany, or modelCache.type to emptyDir, or one pod
{{- end }}
{{- if and (eq $cache.type "emptyDir") $cache.offline }}
modelCache.offline is true and modelCache.type is emptyDir, which begins empty: set modelCache.type to existingClaim, or offline to false
{{- end }}
{{- $own := list "imagePullSecrets" "serviceAccountName" "automountServiceAccountToken" "enableServiceLinks" "terminationGracePeriodSeconds" "securityContext" "priorityClassName" "runtimeClassName" "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "initContainers" "containers" "volumes" "restartPolicy" }}
{{- range $field, $_ := .Values.extraPodSpec }}
{{- if has $field $own }}
extraPodSpec.{{ $field }} is the chart's own: remove it, or use the value for it, see values.yaml
{{- end }}
{{- end }}
{{- range $where := list "podLabels" "commonLabels" }}
{{- range $label, $_ := get $.Values $where }}
{{- if or (hasPrefix "app.kubernetes.io/" $label) (eq $label "helm.sh/chart") }}
{{ $where }}.{{ $label }} is the chart's own: choose another name
{{- end }}
{{- end }}
{{- end }}
{{- range .Values.extraVolumes }}
{{- if has .name (list "config" "models" "home" "tmp" "shared-memory") }}
extraVolumes has {{ .name }}, which is the chart's own: choose another name
{{- end }}
{{- end }}
{{- $volumes := include "scorestream.volumes" . | fromYamlArray }}
{{- $mounts := include "scorestream.volumeMounts" . | fromYamlArray }}
{{- include "scorestream.problems.twice" (dict "what" "the volume" "names" $volumes "key" "name" "fix" "name each Secret of existingSecrets.files once, and a volume of extraVolumes otherwise") }}
{{- include "scorestream.problems.twice" (dict "what" "the mount" "names" $mounts "key" "mountPath" "fix" "choose another mountPath in extraVolumeMounts") }}
{{- range .Values.extraVolumeMounts }}
{{- $name := .name }}
{{- $there := false }}
{{- range $volumes }}{{ $there = or $there (eq .name $name) }}{{ end }}
{{- if not $there }}
extraVolumeMounts has {{ $name }} and there is no such volume: add it to extraVolumes
{{- end }}
{{- end }}
{{- range $where := list "extraContainers" "initContainers" }}
{{- range get $.Values $where }}
{{- if or (not .name) (eq (toString .name) "worker") }}
{{ $where }} has a container {{ .name | default "without a name" }}: give it a name that is not the worker's
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "scorestream.problems.resources" -}}
{{- $settings := include "scorestream.settings" . | fromYaml -}}
{{- range $where := list "requests" "limits" }}
{{- if hasKey (get $.Values.resources $where) $.Values.gpu.resourceName }}
resources.{{ $where }} has {{ $.Values.gpu.resourceName }}: remove it and set gpu.count
{{- end }}
{{- end }}
{{- if and .Values.resources.claims (int .Values.gpu.count) }}
resources.claims is set and gpu.count is {{ .Values.gpu.count }}: set gpu.count to 0, because the claim brings the GPU
{{- end }}
{{- if not (or (int .Values.gpu.count) .Values.resources.claims) }}
{{- $args := $settings.engine.args | default dict }}
{{- range $name := list "quantization" "kv_cache_dtype" }}
{{- $value := toString (get $args $name) }}
{{- if contains "fp8" $value }}
config.engine.args.{{ $name }} is {{ $value }} and gpu.count is 0: remove it, because a CPU does not compute in fp8; or set gpu.count
{{- end }}
{{- end }}
{{- if eq $settings.workers.mps "on" }}
config.workers.mps is on and gpu.count is 0: remove it, because CUDA MPS shares a GPU; or set gpu.count
{{- end }}
{{- end }}
{{- with get .Values.resources.limits "memory" }}
{{- $held := mul (int64 $settings.limits.memory_bytes) (int (include "scorestream.workers" $)) }}
{{- if le (include "scorestream.bytes" . | int64) $held }}
resources.limits.memory is {{ . }}, and the requests in flight alone may take {{ $held }} bytes (config.limits.memory_bytes x {{ include "scorestream.workers" $ }} workers of a pod): raise it as docs/scale.md says, or lower config.limits.memory_bytes
{{- end }}
{{- end }}
{{- end -}}

{{- define "scorestream.problems.security" -}}
{{- range $where := list "podSecurityContext" "containerSecurityContext" }}
{{- if eq (toString (get (get $.Values $where) "runAsUser")) "0" }}
{{ $where }}.runAsUser is 0: set another, because the worker does not need to be root; the image's user is 2000
{{- end }}
{{- end }}
{{- if .Values.containerSecurityContext.privileged }}
containerSecurityContext.privileged is true: remove it, because the device plugin brings the GPU and the worker needs no other device
{{- end }}
{{- end -}}

{{- define "scorestream.problems.scaling" -}}
{{- $scaling := .Values.autoscaling }}
{{- if ne $scaling.mode "none" }}
{{- if ne (int .Values.replicaCount) 1 }}
replicaCount is {{ .Values.replicaCount }} and autoscaling.mode is {{ $scaling.mode }}: remove replicaCount and set autoscaling.minReplicas
{{- end }}
{{- if not (or $scaling.lagThreshold $scaling.recordsPerSecondPerWorker) }}
autoscaling.recordsPerSecondPerWorker is empty: measure it with `scorestream bench` on your model and your requests, or set autoscaling.lagThreshold
{{- end }}
{{- $useful := include "scorestream.usefulReplicas" . | int }}
{{- if gt (include "scorestream.maxReplicas" . | int) $useful }}
autoscaling.maxReplicas is {{ $scaling.maxReplicas }}: set it to at most {{ $useful }} (autoscaling.partitions {{ $scaling.partitions }} / {{ include "scorestream.workers" . }} workers of a pod), because a partition is read by one worker; or give the topics more partitions
{{- end }}
{{- if lt (int $scaling.partitions) (int (include "scorestream.workers" .)) }}
autoscaling.partitions is {{ $scaling.partitions }} and a pod has {{ include "scorestream.workers" . }} workers, of which some would have nothing to read: lower workersPerGpu or gpu.count, or give the topics more partitions
{{- end }}
{{- if gt (int $scaling.minReplicas) (include "scorestream.maxReplicas" . | int) }}
autoscaling.minReplicas is {{ $scaling.minReplicas }}: set it to at most maxReplicas ({{ include "scorestream.maxReplicas" . }})
{{- end }}
{{- if and (eq $scaling.mode "hpa") (eq (int $scaling.minReplicas) 0) }}
autoscaling.minReplicas is 0 and autoscaling.mode is hpa: set at least 1, or autoscaling.mode to keda, which alone can start from none
{{- end }}
{{- if and (eq $scaling.mode "keda") (not (.Capabilities.APIVersions.Has "keda.sh/v1alpha1")) }}
autoscaling.mode is keda and the cluster does not know keda.sh/v1alpha1: install KEDA; to render without a cluster add --api-versions keda.sh/v1alpha1
{{- end }}
{{- end }}
{{- end -}}

{{- define "scorestream.problems.surroundings" -}}
{{- $update := .Values.updateStrategy }}
{{- if and (eq $update.type "RollingUpdate") (has (toString $update.rollingUpdate.maxSurge) (list "0" "0%")) (has (toString $update.rollingUpdate.maxUnavailable) (list "0" "0%")) }}
updateStrategy.rollingUpdate.maxSurge and maxUnavailable are both 0: set one of them to 1, or no pod can ever be replaced
{{- end }}
{{- if has (toString .Values.podDisruptionBudget.maxUnavailable) (list "0" "0%") }}
podDisruptionBudget.maxUnavailable is 0: set at least 1, or no node with a worker can be drained
{{- end }}
{{- with .Values.metrics.podMonitor }}
{{- if and .scrapeTimeout (gt (include "scorestream.milliseconds" .scrapeTimeout | int64) (include "scorestream.milliseconds" .interval | int64)) }}
metrics.podMonitor.scrapeTimeout is {{ .scrapeTimeout }} and the interval is {{ .interval }}: set it to at most the interval, because Prometheus refuses more
{{- end }}
{{- end }}
{{- $model := (include "scorestream.settings" . | fromYaml).engine.model }}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.hub) (not .Values.modelCache.offline) (not .Values.networkPolicy.extraEgress) (regexMatch "^[^/.~][^/]*(/[^/]+)?$" $model) }}
networkPolicy.hub is false and config.engine.model is {{ $model }}, which is downloaded: set networkPolicy.hub to true, or modelCache.offline with a claim that has the model, or name a folder, or open the way to your mirror in networkPolicy.extraEgress
{{- end }}
{{- range $what := list "podMonitor" "prometheusRule" }}
{{- if and (get $.Values.metrics $what).enabled (not ($.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) }}
metrics.{{ $what }}.enabled is true and the cluster does not know monitoring.coreos.com/v1: install the Prometheus operator; to render without a cluster add --api-versions monitoring.coreos.com/v1
{{- end }}
{{- end }}
{{- if and .Values.networkPolicy.enabled (not (include "scorestream.kafkaPorts" .)) }}
networkPolicy.kafka.ports is empty and config.kafka.bootstrap_servers names no port: set one of them
{{- end }}
{{- if and .Values.networkPolicy.enabled (not (include "scorestream.redisPorts" .)) }}
networkPolicy.redis.ports is empty and redis.url stands in a Secret or names Sentinels: set the ports (also of the master, of whom the Sentinels tell)
{{- end }}
{{- end -}}
