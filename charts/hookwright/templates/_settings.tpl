{{- /* "postgresql" or "sqlite". */ -}}
{{- define "hookwright.engine" -}}
{{- if or .Values.database.existingSecret.name (hasPrefix "postgres" (.Values.settings.databaseUrl | default "")) -}}
postgresql
{{- else -}}
sqlite
{{- end -}}
{{- end -}}

{{- /* "true" if the API's replicas can share their counters. */ -}}
{{- define "hookwright.sharedLimits" -}}
{{- $url := default "memory://" .Values.settings.rateLimitUrl -}}
{{- if or .Values.rateLimits.existingSecret.name (not (hasPrefix "memory:" $url)) -}}true{{- end -}}
{{- end -}}

{{- /* A port: if the setting is null, the default of the process, because the chart needs the number. */ -}}
{{- define "hookwright.port" -}}
{{- $default := index (dict "intakePort" 8080 "healthPort" 9090 "apiPort" 8000 "apiHealthPort" 9091) .setting -}}
{{- int (index .root.Values.settings .setting | default $default) -}}
{{- end -}}

{{- /* The named ports of a component's pods, and their settings, as JSON. */ -}}
{{- define "hookwright.ports" -}}
{{- if eq .component "api" -}}
{"http": "apiPort", "health": "apiHealthPort"}
{{- else if include "hookwright.takesIn" . -}}
{"intake": "intakePort", "health": "healthPort"}
{{- else -}}
{"health": "healthPort"}
{{- end -}}
{{- end -}}

{{- define "hookwright.healthPort" -}}
{{- include "hookwright.port" (dict "root" .root "setting" (include "hookwright.ports" . | fromJson).health) -}}
{{- end -}}

{{- define "hookwright.tokenFile" -}}
{{- default "/var/run/secrets/hookwright.dev/token" .Values.settings.operatorTokenFile -}}
{{- end -}}

{{- /* A duration of one unit, such as 30s; empty: 0. */ -}}
{{- define "hookwright.milliseconds" -}}
{{- $units := dict "" 0 "ms" 1 "s" 1000 "m" 60000 "h" 3600000 -}}
{{- mul (regexFind "^[0-9]+" . | int) (get $units (regexFind "[a-z]*$" .)) -}}
{{- end -}}

{{- /* One setting as the text of its variable: lists by commas, whole numbers without an exponent. */ -}}
{{- define "hookwright.settingText" -}}
{{- if kindIs "slice" . -}}
{{- join "," . -}}
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
{{- int64 . -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{- /* The environment of a component: every setting that it knows; some come from the release, or from a Secret. */ -}}
{{- define "hookwright.env" -}}
{{- $root := .root -}}
{{- $given := dict "namespace" (include "hookwright.namespace" $root) "usersNamespace" (include "hookwright.usersNamespace" $root) -}}
{{- $port := include "hookwright.port" (dict "root" $root "setting" "intakePort") -}}
{{- $url := printf "http://%s:%s" (include "hookwright.component" (dict "root" $root "component" "operator")) $port -}}
{{- $_ := set $given "operatorUrl" (default $url $root.Values.settings.operatorUrl) -}}
{{- $secrets := dict -}}
{{- if $root.Values.database.existingSecret.name }}{{ $_ := set $secrets "databaseUrl" $root.Values.database.existingSecret }}{{ end -}}
{{- if $root.Values.egressProxy.existingSecret.name }}{{ $_ := set $secrets "proxyUrl" $root.Values.egressProxy.existingSecret }}{{ end -}}
{{- if $root.Values.rateLimits.existingSecret.name }}{{ $_ := set $secrets "rateLimitUrl" $root.Values.rateLimits.existingSecret }}{{ end -}}
{{- $process := ternary "api" "operator" (eq .component "api") -}}
{{- with include "hookwright.roles" . }}
- name: HOOKWRIGHT_ROLES
  value: {{ . }}
- name: HOOKWRIGHT_INSTANCE
  valueFrom:
    fieldRef: {fieldPath: metadata.name}
{{- end }}
{{- range $name, $variable := index ($root.Files.Get "files/settings.yaml" | fromYaml) $process }}
{{- $value := index $root.Values.settings $name }}
{{- if hasKey $given $name }}{{ $value = index $given $name }}{{ end }}
{{- if hasKey $secrets $name }}
- name: {{ $variable }}
  valueFrom:
    secretKeyRef: {{ index $secrets $name | toJson }}
{{- else }}
{{- $text := include "hookwright.settingText" $value }}
{{- if not (or (kindIs "invalid" $value) (eq $text "")) }}
- name: {{ $variable }}
  value: {{ $text | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- if $root.Values.caBundle.configMap }}
{{- range list "SSL_CERT_FILE" "PGSSLROOTCERT" }}
- name: {{ . }}
  value: /etc/hookwright/ca/{{ $root.Values.caBundle.key }}
{{- end }}
{{- end }}
{{- with (include "hookwright.own" . | fromJson).extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
