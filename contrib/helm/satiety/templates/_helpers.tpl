{{/* Name of all objects of a release. */}}
{{- define "satiety.name" -}}
{{- if contains .Chart.Name .Release.Name -}}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{- else -}}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{- end -}}
{{- end }}

{{- define "satiety.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "satiety.labels" -}}
{{ include "satiety.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "satiety.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "satiety.databaseSecret" -}}
{{ if .Values.database.url }}{{ include "satiety.name" . }}-database{{ else }}{{ required "database.existingSecret or database.url is required" .Values.database.existingSecret }}{{ end }}
{{- end }}

{{/* Environment of every container. */}}
{{- define "satiety.env" -}}
- name: SATIETY_STORE_URL
  valueFrom:
    secretKeyRef:
      name: {{ include "satiety.databaseSecret" . }}
      key: {{ if .Values.database.url }}url{{ else }}{{ .Values.database.key }}{{ end }}
- name: SATIETY_LOG_FORMAT
  value: json
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The pod security standard "restricted". The user is that of contrib/Containerfile. */}}
{{- define "satiety.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "satiety.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* The only writable directories: the home directory of the user, and /tmp. */}}
{{- define "satiety.scratchMounts" -}}
- name: data
  mountPath: /data
- name: tmp
  mountPath: /tmp
{{- end }}

{{- define "satiety.scratchVolumes" -}}
- name: data
  emptyDir:
    sizeLimit: 256Mi
- name: tmp
  emptyDir:
    sizeLimit: 2Gi
{{- end }}
