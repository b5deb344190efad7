# Debian and not Alpine: google-re2, which evaluates regular expressions in CEL, has wheels for glibc only.
ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
RUN python -m venv --without-pip /opt/gpu-admission
COPY pyproject.toml constraints.txt README.md LICENSE CHANGELOG.md ./
COPY policies policies
COPY webhook webhook
COPY certs certs
# Compiled here, because the file system is read-only where it runs; unchecked, because nothing there changes.
RUN python -m pip --python /opt/gpu-admission/bin/python install --no-compile --constraint constraints.txt . \
 && /opt/gpu-admission/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/gpu-admission/lib

FROM python:${PYTHON}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="gpu-admission" \
      org.opencontainers.image.description="Admission control for the NVIDIA GPUs of a Kubernetes cluster" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/gpu-admission /opt/gpu-admission
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# A number, so that Kubernetes can tell that it is not root.
USER 65532:65532
EXPOSE 8443 8080
ENTRYPOINT ["/opt/gpu-admission/bin/gpu-admission"]
CMD ["serve"]
