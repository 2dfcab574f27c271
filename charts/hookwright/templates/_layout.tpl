{{- /*
The Deployments and their roles. On SQLite one process has all roles. On PostgreSQL either any number of operator pods
has all roles, or the operator only reconciles and the component "delivery" has the other roles.
*/ -}}

{{- /* The component whose pods accept and deliver events. */ -}}
{{- define "hookwright.delivering" -}}
{{- ternary "delivery" "operator" .Values.delivery.separate -}}
{{- end -}}

{{- /* The components that run the operator's program, as JSON. */ -}}
{{- define "hookwright.operators" -}}
{{- ternary (list "operator" "delivery") (list "operator") .Values.delivery.separate | toJson -}}
{{- end -}}

{{- /* All components, as JSON. */ -}}
{{- define "hookwright.components" -}}
{{- $operators := include "hookwright.operators" . | fromJsonArray -}}
{{- ternary (append $operators "api") $operators .Values.api.enabled | toJson -}}
{{- end -}}

{{- /* The roles of a component, as in HOOKWRIGHT_ROLES; empty for the API. */ -}}
{{- define "hookwright.roles" -}}
{{- if eq .component "delivery" -}}
deliver,intake
{{- else if eq .component "operator" -}}
{{- ternary "reconcile" "reconcile,deliver,intake" .root.Values.delivery.separate -}}
{{- end -}}
{{- end -}}

{{- /* "true" if a component has the intake. */ -}}
{{- define "hookwright.takesIn" -}}
{{- if contains "intake" (include "hookwright.roles" .) -}}true{{- end -}}
{{- end -}}

{{- /* The autoscaling of a component, as JSON; null if it has a fixed number of pods. */ -}}
{{- define "hookwright.autoscaling" -}}
{{- $autoscaling := dict -}}
{{- if eq .component "api" -}}
{{- $autoscaling = .root.Values.api.autoscaling -}}
{{- else if eq .component (include "hookwright.delivering" .root) -}}
{{- $autoscaling = .root.Values.delivery.autoscaling -}}
{{- end -}}
{{- ternary $autoscaling dict ($autoscaling.enabled | default false) | toJson -}}
{{- end -}}

{{- /* The number of pods of a component without autoscaling. */ -}}
{{- define "hookwright.replicas" -}}
{{- $v := .root.Values -}}
{{- if eq .component "operator" -}}
{{- if $v.delivery.separate -}}
{{- int ($v.operator.replicas | default 2) -}}
{{- else -}}
{{- max (int ($v.operator.replicas | default 1)) (int $v.delivery.replicas) -}}
{{- end -}}
{{- else -}}
{{- int (index $v .component).replicas -}}
{{- end -}}
{{- end -}}

{{- /* "true" if a component has, or may get, several pods. */ -}}
{{- define "hookwright.several" -}}
{{- $autoscaling := include "hookwright.autoscaling" . | fromJson -}}
{{- if or $autoscaling (gt (int (include "hookwright.replicas" .)) 1) -}}true{{- end -}}
{{- end -}}

{{- /* The values of a component, as JSON; a null value of delivery means the operator's value. */ -}}
{{- define "hookwright.own" -}}
{{- $own := index .root.Values .component -}}
{{- if eq .component "delivery" -}}
{{- $own = deepCopy $own -}}
{{- range $name, $value := .root.Values.operator -}}
{{- /* Helm omits null values. */ -}}
{{- if not (hasKey $own $name) -}}{{- $_ := set $own $name $value -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $own -}}
{{- end -}}

{{- /* Seconds that a pod continues after the request to end, until the Service routes no request to it. */ -}}
{{- define "hookwright.drainSeconds" -}}
{{- if eq .component "api" -}}
{{- int .root.Values.api.drainSeconds -}}
{{- else -}}
{{- /* On SQLite no other pod could serve the requests. */ -}}
{{- ternary 5 0 (and (eq (include "hookwright.engine" .root) "postgresql") (include "hookwright.takesIn" . | eq "true")) -}}
{{- end -}}
{{- end -}}

{{- /* Only the leader exports the gauges of the whole store, so the query takes the maximum. More pods do not help
deliveries that wait for receivers that are down, or for rate limits. So the backlog counts only while others are late. */ -}}
{{- define "hookwright.backlogQuery" -}}
{{- $of := printf "{namespace=%q}" .Release.Namespace -}}
max(hookwright_deliveries_pending{{ $of }}) and max(hookwright_deliveries_oldest_late_age_seconds{{ $of }}) > 10
{{- end -}}
