# One image for the operator, the API, the command line and hookwright-adopt. The build needs the base image and the package registry.
# The digest is that of the tag's index, which covers every architecture: Python 3.13.15 on Debian trixie.
ARG PYTHON_IMAGE=python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
# The virtual environment of the image has no pip; the pip of the build stage installs into it.
RUN ["python3", "-m", "venv", "--without-pip", "/opt/hookwright"]
COPY requirements-runtime.lock /src/
RUN ["python3", "-m", "pip", "--python", "/opt/hookwright/bin/python", "install", "--quiet", "--only-binary=:all:", "--require-hashes", "-r", "/src/requirements-runtime.lock"]
# The build tools of the wheels are pinned and stay in this stage.
RUN ["python3", "-m", "venv", "/opt/build"]
COPY requirements-build.lock /src/
RUN ["/opt/build/bin/pip", "install", "--quiet", "--only-binary=:all:", "--require-hashes", "-r", "/src/requirements-build.lock"]
COPY pyproject.toml README.md LICENSE /src/
COPY crds /src/crds
COPY runtime /src/runtime
COPY operator /src/operator
COPY api /src/api
COPY cli /src/cli
RUN ["/opt/build/bin/pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", "/wheels", "/src", "/src/cli"]
RUN ["python3", "-m", "pip", "--python", "/opt/hookwright/bin/python", "install", "--quiet", "--no-deps", "--no-index", "--find-links", "/wheels", "hookwright", "hookwright-cli"]
# The store's folder, for installations without a volume. A mounted volume has its own file owner.
RUN ["install", "-d", "-o", "65532", "-g", "65532", "-m", "0700", "/state/hookwright"]

FROM ${PYTHON_IMAGE}
ARG VERSION=0.0.0-dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Hookwright" \
      org.opencontainers.image.description="A Kubernetes operator that manages webhooks declaratively and delivers events to them, signed, with retries." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.url="https://hookwright.dev" \
      org.opencontainers.image.documentation="https://hookwright.dev/docs" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# Only the store is written, so the root filesystem may be read-only. kopf needs a user name, and /etc/passwd has none for
# this id.
ENV PATH=/opt/hookwright/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    USER=hookwright
COPY --from=build /opt/hookwright /opt/hookwright
COPY --from=build --chown=65532:65532 /state/hookwright /var/lib/hookwright
USER 65532:65532
EXPOSE 8080 9090 8000 9091
CMD ["hookwright-operator"]
