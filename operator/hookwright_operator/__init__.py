"""The operator: reconciles the resources, accepts events and delivers them."""
