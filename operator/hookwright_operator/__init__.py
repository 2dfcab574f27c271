"""The operator: reconciles the resources, takes events in, and delivers them."""
