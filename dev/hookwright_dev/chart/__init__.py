"""Generated parts of the Helm chart, so that no content of this repository is maintained twice by hand.

CRDs come from ``crds/``, RBAC rules from the manifests of development, and settings from the two settings
classes. The chart's README comes from the comments in its values.
"""
