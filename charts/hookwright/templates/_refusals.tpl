{{- /* A line for each value that cannot work, so that the installation is refused; it names the value and the correct form. */ -}}
{{- define "hookwright.refusals" -}}
{{- $v := .Values -}}
{{- $s := $v.settings -}}
{{- $sqlite := eq (include "hookwright.engine" .) "sqlite" -}}
{{- $manyApis := or $v.api.autoscaling.enabled (gt (int $v.api.replicas) 1) -}}
{{- $url := $s.databaseUrl | default "" -}}
{{- if not $v.image.repository -}}
{{- println "image.repository is empty: name an image that the cluster can pull, such as registry.example.com/hookwright; `make image` in a checkout builds it" -}}
{{- end -}}
{{- if regexMatch "[:@][^/]*$" $v.image.repository -}}
{{- println (printf "image.repository is %s, but its tag or digest has a value of its own: set image.tag or image.digest, and image.repository without it" $v.image.repository) -}}
{{- end -}}
{{- include "hookwright.layoutRefusals" . -}}
{{- include "hookwright.memoryRefusals" . -}}
{{- if regexMatch "://[^/@]*:[^/@]+@" $url -}}
{{- println "settings.databaseUrl contains a password that every reader of Deployments can see: put the URL in a Secret and name that in database.existingSecret.name" -}}
{{- else if and $sqlite $url (not (hasPrefix "sqlite:////var/lib/hookwright/" $url)) -}}
{{- println (printf "settings.databaseUrl is %s, but the pod can write only below /var/lib/hookwright: use sqlite:////var/lib/hookwright/hookwright.db, or PostgreSQL by database.existingSecret.name" $url) -}}
{{- end -}}
{{- if regexMatch "://[^/@]*:[^/@]+@" ($s.proxyUrl | default "") -}}
{{- println "settings.proxyUrl contains a password that every reader of Deployments can see: put the URL in a Secret and name that in egressProxy.existingSecret.name" -}}
{{- else if not (regexMatch "^(http://.+)?$" ($s.proxyUrl | default "")) -}}
{{- println (printf "settings.proxyUrl is %s: write the proxy as http://proxy.example.com:3128" $s.proxyUrl) -}}
{{- end -}}
{{- if regexMatch "://[^/@]*:[^/@]+@" ($s.rateLimitUrl | default "") -}}
{{- println "settings.rateLimitUrl contains a password that every reader of Deployments can see: put the URL in a Secret and name that in rateLimits.existingSecret.name" -}}
{{- end -}}
{{- if and $v.api.enabled $manyApis (not (include "hookwright.sharedLimits" .)) -}}
{{- println "each of several API pods would count rate limits separately: set api.replicas to 1 and api.autoscaling.enabled to false, or name a Redis or Valkey in settings.rateLimitUrl or rateLimits.existingSecret.name" -}}
{{- end -}}
{{- if and (not $v.api.enabled) (or $v.ingress.enabled $v.gateway.enabled) -}}
{{- println "ingress and gateway lead to the API, but api.enabled is false: enable it, or disable them" -}}
{{- end -}}
{{- if and $v.ingress.enabled (not $v.ingress.hosts) -}}
{{- println "ingress.enabled is true, but ingress.hosts is empty: name a host, such as hooks.example.com" -}}
{{- end -}}
{{- if and $v.gateway.enabled (not $v.gateway.parentRefs) -}}
{{- println "gateway.enabled is true, but gateway.parentRefs is empty: name a Gateway, as in [{name: public, namespace: gateways}]" -}}
{{- end -}}
{{- range $component := include "hookwright.components" . | fromJsonArray -}}
{{- $account := (index $v $component).serviceAccount -}}
{{- if and (not $account.create) (not $account.name) -}}
{{- println (printf "%s.serviceAccount.create is false and its name empty: name an existing ServiceAccount" $component) -}}
{{- end -}}
{{- end -}}
{{- if and $v.persistence.existingClaim (not $v.persistence.enabled) -}}
{{- println "persistence.existingClaim is set, but persistence.enabled is false: enable it, or remove the claim" -}}
{{- end -}}
{{- $longest := default 30 $s.maxTimeout -}}
{{- if and $s.lease (le (float64 $s.lease) (mulf $longest 1.2)) -}}
{{- println (printf "settings.lease is %v s: five sixths of it must be longer than the longest attempt, settings.maxTimeout of %v s: a replica renews its lease after a sixth, and starts no attempt that could outlive the lease" $s.lease $longest) -}}
{{- end -}}
{{- range $pair := list (list "intakePort" "healthPort") (list "apiPort" "apiHealthPort") -}}
{{- $first := include "hookwright.port" (dict "root" $ "setting" (first $pair)) -}}
{{- if eq $first (include "hookwright.port" (dict "root" $ "setting" (last $pair))) -}}
{{- println (printf "settings.%s and settings.%s are both %s: two servers of one pod need two ports" (first $pair) (last $pair) $first) -}}
{{- end -}}
{{- end -}}
{{- if and $v.metrics.serviceMonitor.enabled $v.metrics.podMonitor.enabled -}}
{{- println "metrics.serviceMonitor.enabled and metrics.podMonitor.enabled are true: enable one of them, or each pod is scraped twice and sums over pods are wrong" -}}
{{- end -}}
{{- range $name, $monitor := pick $v.metrics "serviceMonitor" "podMonitor" -}}
{{- if gt (include "hookwright.milliseconds" $monitor.scrapeTimeout | int) (include "hookwright.milliseconds" $monitor.interval | int) -}}
{{- println (printf "metrics.%s.scrapeTimeout is %s and its interval %s: Prometheus refuses a timeout that is longer than the interval" $name $monitor.scrapeTimeout $monitor.interval) -}}
{{- end -}}
{{- end -}}
{{- if and $v.crds.enabled (not (or $v.crds.keep $v.uninstall.releaseFinalizers)) -}}
{{- println "crds.keep and uninstall.releaseFinalizers are false: the endpoints would keep Hookwright's finalizer, and the deletion of the CRDs would never end: set one of them to true" -}}
{{- end -}}
{{- include "hookwright.organizationRefusals" . -}}
{{- include "hookwright.alertRefusals" . -}}
{{- end -}}

{{- /* The kubelet kills a process that needs more than its limit, so a limit without its unit is a crash loop. */ -}}
{{- define "hookwright.memoryRefusals" -}}
{{- $units := dict "" 1 "k" 1000 "Ki" 1024 "M" 1000000 "Mi" 1048576 "G" 1000000000 "Gi" 1073741824 -}}
{{- range $component := list "operator" "delivery" "api" -}}
{{- $limit := toString (dig "limits" "memory" "" ((index $.Values $component).resources | default dict)) -}}
{{- $unit := regexReplaceAll "^[0-9.]+" $limit "" -}}
{{- if and (regexMatch "^[0-9.]+[A-Za-z]*$" $limit) (hasKey $units $unit) -}}
{{- if lt (mulf (regexFind "^[0-9.]+" $limit | float64) (get $units $unit)) 67108864.0 -}}
{{- println (printf "%s.resources.limits.memory is %s, but the process needs at least 64Mi: write the limit with its unit, such as 512Mi" $component $limit) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "hookwright.layoutRefusals" -}}
{{- $v := .Values -}}
{{- if eq (include "hookwright.engine" .) "sqlite" -}}
{{- with $v.operator.strategy -}}
{{- if ne .type "Recreate" -}}
{{- println (printf "operator.strategy.type is %s, but SQLite serves one process, and the new pod would start beside the old one: leave operator.strategy empty, or name a Secret with a PostgreSQL URL in database.existingSecret.name" .type) -}}
{{- end -}}
{{- end -}}
{{- range $name, $count := dict "operator.replicas" $v.operator.replicas "delivery.replicas" $v.delivery.replicas -}}
{{- if gt (int $count) 1 -}}
{{- println (printf "%s is %d, but SQLite serves one process: set it to 1, or name a Secret with a PostgreSQL URL in database.existingSecret.name" $name (int $count)) -}}
{{- end -}}
{{- end -}}
{{- range $name, $wanted := dict "delivery.separate" $v.delivery.separate "delivery.autoscaling.enabled" $v.delivery.autoscaling.enabled -}}
{{- if $wanted -}}
{{- println (printf "%s is true, but SQLite serves one process: set it to false, or name a Secret with a PostgreSQL URL in database.existingSecret.name" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $component := list "api" "delivery" -}}
{{- $autoscaling := (index $v $component).autoscaling -}}
{{- if and $autoscaling.enabled (gt (int $autoscaling.minReplicas) (int $autoscaling.maxReplicas)) -}}
{{- println (printf "%s.autoscaling.minReplicas is %d and maxReplicas %d: minReplicas must not exceed maxReplicas" $component (int $autoscaling.minReplicas) (int $autoscaling.maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- range $component := include "hookwright.components" . | fromJsonArray -}}
{{- $scope := dict "root" $ "component" $component -}}
{{- $least := (include "hookwright.autoscaling" $scope | fromJson).minReplicas | default (include "hookwright.replicas" $scope) | int -}}
{{- $available := toString (index $v $component).podDisruptionBudget.minAvailable -}}
{{- $share := trimSuffix "%" $available | float64 -}}
{{- if hasSuffix "%" $available -}}{{- $share = divf (mulf $share $least) 100 | ceil -}}{{- end -}}
{{- if and (include "hookwright.several" $scope) (ge (int $share) $least) -}}
{{- println (printf "%s.podDisruptionBudget.minAvailable is %s, but there may be only %d pods, so no node with one of them could be drained: set a smaller number" $component $available $least) -}}
{{- end -}}
{{- end -}}
{{- $autoscaling := $v.delivery.autoscaling -}}
{{- if and $autoscaling.keda.enabled (not $autoscaling.enabled) -}}
{{- println "delivery.autoscaling.keda.enabled is true, but delivery.autoscaling.enabled is false: enable it, or disable KEDA" -}}
{{- end -}}
{{- if and $autoscaling.keda.enabled (not $autoscaling.keda.prometheusAddress) -}}
{{- println "delivery.autoscaling.keda.enabled is true, but its prometheusAddress is empty: set the URL of Prometheus, such as http://prometheus-operated.monitoring:9090" -}}
{{- end -}}
{{- if and $autoscaling.keda.enabled $autoscaling.metrics -}}
{{- println "delivery.autoscaling.metrics is for the HorizontalPodAutoscaler, and delivery.autoscaling.keda.enabled is true: write the metric as keda.query, or disable KEDA" -}}
{{- end -}}
{{- if and $autoscaling.enabled (not (or $autoscaling.keda.enabled $autoscaling.metrics $autoscaling.targetCPUUtilizationPercentage)) -}}
{{- println "delivery.autoscaling.enabled is true, but it has no metric: set targetCPUUtilizationPercentage, metrics, or keda.enabled" -}}
{{- end -}}
{{- range $component := list "operator" "delivery" -}}
{{- range (index $v $component).extraEnv | default list -}}
{{- if has .name (list "HOOKWRIGHT_ROLES" "HOOKWRIGHT_INSTANCE") -}}
{{- println (printf "%s.extraEnv sets %s, which the chart sets from the layout: remove it, and see delivery.separate" $component .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "hookwright.organizationRefusals" -}}
{{- $organization := .Values.firstOrganization -}}
{{- $served := .Values.settings.watchNamespaces | default list -}}
{{- $users := include "hookwright.usersNamespace" . -}}
{{- if has $users (concat $served (list .Release.Namespace (include "hookwright.namespace" .) $organization.name)) -}}
{{- println (printf "settings.usersNamespace is %s, whose other Secrets the API could read: name a namespace for users alone, such as %s-users" $users (include "hookwright.namespace" .)) -}}
{{- end -}}
{{- if gt (len $users) 63 -}}
{{- println (printf "settings.usersNamespace is %s, but the name of a namespace has at most 63 characters: set a shorter one" $users) -}}
{{- end -}}
{{- if and $organization.user.email (not $organization.name) -}}
{{- println "firstOrganization.user.email is set, but firstOrganization.name is empty: a user needs an organization" -}}
{{- end -}}
{{- if and $organization.user.email (not (hasPrefix "$argon2id$" $organization.user.passwordHash)) -}}
{{- println "firstOrganization.user.passwordHash must be an argon2id hash, beginning with $argon2id$, not the password; docs/users.md has the command that creates it" -}}
{{- end -}}
{{- if and $organization.name $served (not (has $organization.name $served)) -}}
{{- println (printf "firstOrganization.name is %s, but settings.watchNamespaces does not contain it: add it there, or the operator does not serve it" $organization.name) -}}
{{- end -}}
{{- end -}}
