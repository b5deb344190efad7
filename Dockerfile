# `make image` builds it: the wheel of this version, its dependencies with the hashes of requirements.lock, and of Debian
# only what Python needs. No shell, no package manager, no pip. Build twice and compare: `make image-proof`.

# It only builds: what the image has of Debian is downloaded below, with the newest security updates. Pin it where you build
# for others: DEBIAN=debian:trixie-slim@sha256:...
ARG DEBIAN=debian:trixie-slim

FROM ${DEBIAN} AS build
# The time of all files, so that equal content makes equal layers. 2020-02-02, as in the wheel.
ARG SOURCE_DATE_EPOCH=1580601600
ENV DEBIAN_FRONTEND=noninteractive PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
RUN apt-get update && apt-get install --yes --no-install-recommends python3 python3-pip

# Debian packages are unpacked and not installed: their scripts would need a shell. What scanners look for is kept: os-release,
# copyrights, and the control data of each package.
WORKDIR /packages
RUN mkdir -p /rootfs/var/lib/dpkg/status.d \
 && apt-get download base-files libbz2-1.0 libc6 libexpat1 libffi8 libgcc-s1 liblzma5 libpython3.13-minimal libpython3.13-stdlib \
      libssl3t64 libstdc++6 libuuid1 libzstd1 python3-minimal python3.13-minimal zlib1g \
 && for package in *.deb; do \
      dpkg --extract "$package" /rootfs \
      && dpkg --field "$package" > "/rootfs/var/lib/dpkg/status.d/${package%%_*}" || exit 1; \
    done \
 && rm -rf /rootfs/usr/share/man /rootfs/usr/share/lintian /rootfs/usr/share/info \
 && find /rootfs/usr/share/doc -type f ! -name copyright -delete

COPY requirements.lock /build/
COPY build/wheel/*.whl /build/
# Debian's Python looks for modules here. Compiled now, because the file system is read-only where it runs; unchecked, because
# nothing there changes.
ARG SITE=/rootfs/usr/local/lib/python3.13/dist-packages
RUN python3 -m pip install --no-compile --only-binary :all: --require-hashes --target $SITE --requirement /build/requirements.lock \
 && rm -r $SITE/bin \
 && python3 -m pip install --no-compile --no-deps --target /wheel /build/*.whl \
 && mkdir -p /rootfs/usr/local/bin && mv /wheel/bin/gpu-admission /rootfs/usr/local/bin/ && rm -r /wheel/bin \
 && cp -r /wheel/. $SITE && rm -f $SITE/*.dist-info/direct_url.json \
 && python3 -m compileall -q -s /rootfs --invalidation-mode unchecked-hash $SITE /rootfs/usr/lib/python3.13 \
 && printf 'root:x:0:0::/:/\ngpu-admission:x:65532:65532::/:/\n' > /rootfs/etc/passwd \
 && printf 'root:x:0:\ngpu-admission:x:65532:\n' > /rootfs/etc/group \
 && find /rootfs -exec touch --no-dereference --date=@$SOURCE_DATE_EPOCH {} +

# For the bill of materials: `make image` writes these files to build/image.
FROM scratch AS packages
COPY --from=build /rootfs/var/lib/dpkg/status.d /var/lib/dpkg/status.d

FROM scratch
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="gpu-admission" \
      org.opencontainers.image.description="Admission control for the NVIDIA GPUs of a Kubernetes cluster" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /rootfs /
# glibc gives the memory of large requests back at once, and the free end of its heap; by default it learns to keep both.
ENV PATH=/usr/local/bin:/usr/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=65536 MALLOC_TRIM_THRESHOLD_=131072
# A number, so that Kubernetes can tell that it is not root.
USER 65532:65532
EXPOSE 8443 8444 8445 8080
ENTRYPOINT ["/usr/local/bin/gpu-admission"]
CMD ["serve"]
