{{- /* "true" for the operator on SQLite: only one process may open the database. */ -}}
{{- define "hookwright.isSingle" -}}
{{- if and (ne .component "api") (eq (include "hookwright.engine" .root) "sqlite") -}}true{{- end -}}
{{- end -}}

{{- /* How a change of the Deployment replaces the pods. */ -}}
{{- define "hookwright.strategy" -}}
{{- $rolling := dict "type" "RollingUpdate" "rollingUpdate" (dict "maxUnavailable" 0 "maxSurge" 1) -}}
{{- $default := ternary (dict "type" "Recreate") $rolling (include "hookwright.isSingle" . | eq "true") -}}
{{- (include "hookwright.own" . | fromJson).strategy | default $default | toYaml -}}
{{- end -}}

{{- define "hookwright.podSpec" -}}
{{- $own := include "hookwright.own" . | fromJson -}}
serviceAccountName: {{ include "hookwright.serviceAccount" . }}
# Kubernetes would set HOOKWRIGHT_API_PORT and similar variables for its Services, and Hookwright would read them as settings.
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "hookwright.podSecurityContext" (dict "root" .root "context" $own.podSecurityContext) }}
securityContext:
  {{- . | nindent 2 }}
{{- end }}
{{- /* Values that are fields of a pod as they are. */ -}}
{{- range $field := list "runtimeClassName" "dnsConfig" "hostAliases" "priorityClassName" "nodeSelector" "tolerations" "affinity" "initContainers" }}
{{- with index $own $field }}
{{ toYaml (dict $field .) }}
{{- end }}
{{- end }}
{{- with $own.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  {{- $pods := dict "labelSelector" (dict "matchLabels" (include "hookwright.selector" $ | fromYaml)) }}
  {{- toYaml (list (merge (ternary dict $pods (hasKey . "labelSelector")) .)) | nindent 2 }}
  {{- end }}
{{- end }}
terminationGracePeriodSeconds: {{ include "hookwright.terminationSeconds" . }}
{{- end -}}

{{- /* A pod's security context. OpenShift assigns the user and the groups, and refuses pods that name others. */ -}}
{{- define "hookwright.podSecurityContext" -}}
{{- $chosen := toString .root.Values.openshift -}}
{{- $openshift := or (eq $chosen "true") (and (eq $chosen "auto") (.root.Capabilities.APIVersions.Has "security.openshift.io/v1")) -}}
{{- with ternary (omit (.context | default dict) "runAsUser" "runAsGroup" "fsGroup") .context $openshift }}
{{- toYaml . }}
{{- end -}}
{{- end -}}

{{- define "hookwright.mounts" -}}
{{- $isApi := eq .component "api" -}}
- {name: tmp, mountPath: /tmp}
{{- if .root.Values.caBundle.configMap }}
- {name: ca-bundle, mountPath: /etc/hookwright/ca, readOnly: true}
{{- end }}
{{- if $isApi }}
- {name: operator-token, mountPath: {{ dir (include "hookwright.tokenFile" .root) }}, readOnly: true}
{{- else if .root.Values.database.certificates.secret }}
- {name: database-certificates, mountPath: /etc/hookwright/database, readOnly: true}
{{- end }}
{{- if include "hookwright.isSingle" . }}
- {name: database, mountPath: /var/lib/hookwright}
{{- end }}
{{- with (include "hookwright.own" . | fromJson).extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* The volumes of these mounts. */ -}}
{{- define "hookwright.volumes" -}}
{{- $isApi := eq .component "api" -}}
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
{{- with .root.Values.caBundle.configMap }}
- name: ca-bundle
  configMap: {name: {{ . }}}
{{- end }}
{{- if $isApi }}
# The API's credential for the operator: a token that only the operator accepts.
- name: operator-token
  projected:
    sources:
      - serviceAccountToken: {path: {{ base (include "hookwright.tokenFile" .root) }}, audience: hookwright, expirationSeconds: 3600}
{{- else if .root.Values.database.certificates.secret }}
- name: database-certificates
  # The group of the pod reads the files; libpq refuses a client's key that others can read.
  secret: {secretName: {{ .root.Values.database.certificates.secret }}, defaultMode: 0440}
{{- end }}
{{- if include "hookwright.isSingle" . }}
- name: database
  {{- if .root.Values.persistence.enabled }}
  persistentVolumeClaim:
    claimName: {{ default (include "hookwright.component" .) .root.Values.persistence.existingClaim }}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- end }}
{{- with (include "hookwright.own" . | fromJson).extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Liveness checks the supervised loops, readiness the store and the watches. A start may include a migration. */ -}}
{{- define "hookwright.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 1
  failureThreshold: {{ int (include "hookwright.own" . | fromJson).startupSeconds }}
livenessProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 2
  timeoutSeconds: 3
  failureThreshold: 3
{{- end -}}

{{- define "hookwright.container" -}}
{{- $own := include "hookwright.own" . | fromJson -}}
image: {{ include "hookwright.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
{{- with $own.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
env:
  {{- include "hookwright.env" . | nindent 2 }}
{{- with $own.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{ include "hookwright.probes" . }}
{{- with $own.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
terminationMessagePolicy: FallbackToLogsOnError
ports:
  {{- range $name, $setting := include "hookwright.ports" . | fromJson }}
  - {name: {{ $name }}, containerPort: {{ include "hookwright.port" (dict "root" $.root "setting" $setting) }}}
  {{- end }}
{{- with include "hookwright.drainSeconds" . | int }}
lifecycle:
  preStop: {sleep: {seconds: {{ . }}}}
{{- end }}
volumeMounts:
  {{- include "hookwright.mounts" . | nindent 2 }}
{{- end -}}

{{- /* Seconds until the kubelet kills the pod: the time of a normal end, plus some seconds to store results. */ -}}
{{- define "hookwright.terminationSeconds" -}}
{{- $settings := .root.Values.settings -}}
{{- $grace := eq .component "api" | ternary ($settings.apiShutdownGrace | default 40) ($settings.shutdownGrace | default 35) -}}
{{- add (ceil (float64 $grace)) (include "hookwright.drainSeconds" . | int) 15 -}}
{{- end -}}

{{- /* The common part of pods that run a program of files/ once; called with "name", "program" and its "arguments". */ -}}
{{- define "hookwright.programPod" -}}
{{- $operator := .root.Values.operator -}}
restartPolicy: Never
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "hookwright.podSecurityContext" (dict "root" .root "context" $operator.podSecurityContext) }}
securityContext:
  {{- . | nindent 2 }}
{{- end }}
{{- with $operator.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $operator.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: {{ .name }}
    image: {{ include "hookwright.image" .root | quote }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    {{- with $operator.securityContext }}
    securityContext:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    command: [python, -c]
    args:
      - |
        {{- .root.Files.Get (printf "files/%s" .program) | nindent 8 }}
      {{- with .arguments }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    resources: {requests: {cpu: 50m, memory: 64Mi}, limits: {memory: 128Mi}}
{{- end -}}
