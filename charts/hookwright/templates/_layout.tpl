{{- /*
Which Deployments there are, and what each of them does. On SQLite one process does everything. On PostgreSQL the
operator's pods do so, as many as are wanted, or the operator reconciles and the component "delivery" does the rest.
*/ -}}

{{- /* The component whose pods take events in and deliver them. */ -}}
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

{{- /* What a component does, as HOOKWRIGHT_ROLES takes it; empty for the API. */ -}}
{{- define "hookwright.roles" -}}
{{- if eq .component "delivery" -}}
deliver,intake
{{- else if eq .component "operator" -}}
{{- ternary "reconcile" "reconcile,deliver,intake" .root.Values.delivery.separate -}}
{{- end -}}
{{- end -}}

{{- /* "true" where a component takes events in. */ -}}
{{- define "hookwright.takesIn" -}}
{{- if contains "intake" (include "hookwright.roles" .) -}}true{{- end -}}
{{- end -}}

{{- /* The autoscaling of a component, as JSON; null where it has a fixed number of pods. */ -}}
{{- define "hookwright.autoscaling" -}}
{{- $autoscaling := dict -}}
{{- if eq .component "api" -}}
{{- $autoscaling = .root.Values.api.autoscaling -}}
{{- else if eq .component (include "hookwright.delivering" .root) -}}
{{- $autoscaling = .root.Values.delivery.autoscaling -}}
{{- end -}}
{{- ternary $autoscaling dict ($autoscaling.enabled | default false) | toJson -}}
{{- end -}}

{{- /* How many pods a component has without autoscaling. */ -}}
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

{{- /* "true" where a component has, or may get, several pods. */ -}}
{{- define "hookwright.several" -}}
{{- $autoscaling := include "hookwright.autoscaling" . | fromJson -}}
{{- if or $autoscaling (gt (int (include "hookwright.replicas" .)) 1) -}}true{{- end -}}
{{- end -}}

{{- /* The values of a component, as JSON; what delivery leaves null is as of the operator. */ -}}
{{- define "hookwright.own" -}}
{{- $own := index .root.Values .component -}}
{{- if eq .component "delivery" -}}
{{- $own = deepCopy $own -}}
{{- range $name, $value := .root.Values.operator -}}
{{- /* Helm leaves out what is null. */ -}}
{{- if not (hasKey $own $name) -}}{{- $_ := set $own $name $value -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $own -}}
{{- end -}}

{{- /* Seconds for which a pod goes on after its end was ordered, so that nobody is led to it any more. */ -}}
{{- define "hookwright.drainSeconds" -}}
{{- if eq .component "api" -}}
{{- int .root.Values.api.drainSeconds -}}
{{- else -}}
{{- /* On SQLite nobody else could be led to meanwhile. */ -}}
{{- ternary 5 0 (and (eq (include "hookwright.engine" .root) "postgresql") (include "hookwright.takesIn" . | eq "true")) -}}
{{- end -}}
{{- end -}}

{{- /* The leader alone tells of the whole store, so the greatest number is the one. What waits for receivers that are
down, or for their rate limits, more pods would not send sooner: it counts only while something else is late. */ -}}
{{- define "hookwright.backlogQuery" -}}
{{- $of := printf "{namespace=%q}" .Release.Namespace -}}
max(hookwright_deliveries_pending{{ $of }}) and max(hookwright_deliveries_oldest_late_age_seconds{{ $of }}) > 10
{{- end -}}
