{{- /* The common parts of all pods. */ -}}
{{- define "hookwright.podMetadata" -}}
{{- $own := include "hookwright.own" . | fromJson -}}
labels:
  {{- include "hookwright.labels" . | nindent 2 }}
  {{- with $own.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $own.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
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
{{- with $own.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with $own.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $own.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  {{- if $own.topologySpreadConstraints }}
  {{- toYaml $own.topologySpreadConstraints | nindent 2 }}
  {{- else }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "hookwright.selector" . | nindent 8 }}
  {{- end }}
{{- end -}}

{{- /* A pod's security context. OpenShift assigns the user and the groups, and refuses pods that name others. */ -}}
{{- define "hookwright.podSecurityContext" -}}
{{- $chosen := toString .root.Values.openshift -}}
{{- $openshift := or (eq $chosen "true") (and (eq $chosen "auto") (.root.Capabilities.APIVersions.Has "security.openshift.io/v1")) -}}
{{- with ternary (omit (.context | default dict) "runAsUser" "runAsGroup" "fsGroup") .context $openshift }}
{{- toYaml . }}
{{- end -}}
{{- end -}}

{{- /* The mounts of every container of a component, besides its own. */ -}}
{{- define "hookwright.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if .root.Values.caBundle.configMap }}
- {name: ca-bundle, mountPath: /etc/hookwright/ca, readOnly: true}
{{- end }}
{{- if and .root.Values.database.certificates.secret (ne .component "api") }}
- {name: database-certificates, mountPath: /etc/hookwright/database, readOnly: true}
{{- end }}
{{- with (include "hookwright.own" . | fromJson).extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* The volumes of these mounts. */ -}}
{{- define "hookwright.volumes" -}}
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
{{- with .root.Values.caBundle.configMap }}
- name: ca-bundle
  configMap: {name: {{ . }}}
{{- end }}
{{- if ne .component "api" }}
{{- with .root.Values.database.certificates.secret }}
- name: database-certificates
  # The group of the pod reads the files; libpq refuses a client's key that others can read.
  secret: {secretName: {{ . }}, defaultMode: 0440}
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
{{- end -}}

{{- /* Seconds until the kubelet kills the pod: the time of a normal end, plus some seconds to store results. */ -}}
{{- define "hookwright.terminationSeconds" -}}
{{- $settings := .root.Values.settings -}}
{{- $grace := eq .component "api" | ternary ($settings.apiShutdownGrace | default 40) ($settings.shutdownGrace | default 35) -}}
{{- add (ceil (float64 $grace)) (include "hookwright.drainSeconds" . | int) 15 -}}
{{- end -}}

{{- define "hookwright.preStop" -}}
{{- with include "hookwright.drainSeconds" . | int -}}
lifecycle:
  preStop: {sleep: {seconds: {{ . }}}}
{{- end -}}
{{- end -}}
