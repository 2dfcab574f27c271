"""HTTP below the routes: middleware, guarded routes, responses, OpenAPI."""
