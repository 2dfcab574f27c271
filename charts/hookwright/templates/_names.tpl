{{- define "hookwright.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- /* At most 46 characters: with "-operator-metrics" it is still the name of a Service. */ -}}
{{- define "hookwright.fullname" -}}
{{- $name := include "hookwright.name" . -}}
{{- $release := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $release .Values.fullnameOverride | trunc 46 | trimSuffix "-" -}}
{{- end -}}

{{- /* The installation's own namespace. */ -}}
{{- define "hookwright.namespace" -}}
{{- default .Release.Namespace .Values.settings.namespace -}}
{{- end -}}

{{- /* The namespace of users, session keys and ended sessions. */ -}}
{{- define "hookwright.usersNamespace" -}}
{{- default (printf "%s-users" (include "hookwright.namespace" .)) .Values.settings.usersNamespace -}}
{{- end -}}

{{- /* Called with (dict "root" $ "component" "operator", "delivery" or "api"). */ -}}
{{- define "hookwright.component" -}}
{{- printf "%s-%s" (include "hookwright.fullname" .root) .component -}}
{{- end -}}

{{- define "hookwright.serviceAccount" -}}
{{- $account := (index .root.Values .component).serviceAccount -}}
{{- if $account.create -}}
{{- default (include "hookwright.component" .) $account.name -}}
{{- else -}}
{{- $account.name -}}
{{- end -}}
{{- end -}}

{{- define "hookwright.selector" -}}
app.kubernetes.io/name: {{ include "hookwright.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- /* Labels of an object; component may be left out. */ -}}
{{- define "hookwright.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "hookwright.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: hookwright
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* The metadata of an object of a component, in the release's namespace. Optional: the end of its name as "suffix", a
"name" of its own, another "namespace" ("" for none), more "labels", and "annotations". */ -}}
{{- define "hookwright.metadata" -}}
name: {{ .name | default (printf "%s%s" (include "hookwright.component" .) (default "" .suffix)) }}
{{- with ternary .namespace .root.Release.Namespace (hasKey . "namespace") }}
namespace: {{ . }}
{{- end }}
labels:
  {{- include "hookwright.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* [registry/]repository, then "@" and a digest, or ":" and a tag. */ -}}
{{- define "hookwright.image" -}}
{{- $image := .Values.image -}}
{{- $version := $image.digest | default $image.tag | default .Chart.AppVersion -}}
{{- with .Values.global.imageRegistry | default $image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- $image.repository }}{{ ternary "@" ":" (hasPrefix "sha256:" $version) }}{{ $version -}}
{{- end -}}

{{- /* Rules for a ServiceAccount of the release: a Role and its binding, or a ClusterRole with "namespace" "". Called as
hookwright.metadata, with "account" and "rules". */ -}}
{{- define "hookwright.grant" -}}
{{- $kind := ternary "Role" "ClusterRole" (ne .namespace "") -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  {{- include "hookwright.metadata" . | nindent 2 }}
rules:
  {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  {{- include "hookwright.metadata" . | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ $kind }}, name: {{ .name }}}
subjects:
  - {kind: ServiceAccount, name: {{ .account }}, namespace: {{ .root.Release.Namespace }}}
{{- end -}}
