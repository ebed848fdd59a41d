# The controller's image: `docker build -t flipop .`
#
# EXTRAS chooses the providers. A release passes the digest of the base image that it has just resolved, so that both
# stages, and the record of the build, name one image for good: --build-arg PYTHON_DIGEST=@sha256:...
# It is empty here: without it, the tag decides.
ARG PYTHON_VERSION=3.14
ARG DEBIAN_RELEASE=trixie
ARG PYTHON_DIGEST=""

FROM python:${PYTHON_VERSION}-slim-${DEBIAN_RELEASE}${PYTHON_DIGEST} AS build
ENV PYTHONDONTWRITEBYTECODE=1 \
    UV_NO_CACHE=1 \
    UV_LINK_MODE=copy \
    UV_PYTHON_DOWNLOADS=never
WORKDIR /src

# uv, itself pinned by hash.
COPY requirements/constraints.txt requirements/
RUN python -m venv /opt/uv && \
    awk '/^[a-zA-Z]/ {keep = /^uv==/} keep' requirements/constraints.txt > /opt/uv/uv.txt && \
    /opt/uv/bin/python -m pip install --no-cache-dir --disable-pip-version-check --quiet \
      --require-hashes --only-binary :all: -r /opt/uv/uv.txt

COPY pyproject.toml README.md LICENSE ./
COPY requirements/wheels.py requirements/
COPY deploy/ deploy/
COPY flipop_core/ flipop_core/
COPY plugins/ plugins/
RUN /opt/uv/bin/uv build --quiet --python "$(command -v python)" --wheel --all-packages \
      --build-constraint requirements/constraints.txt --require-hashes --out-dir /opt/wheels

# Everything with a hash, nothing built from source. Byte code is checked against no file's time or contents: the
# image's files do not change.
ARG EXTRAS=digitalocean,cloudflare,aws
RUN python requirements/wheels.py /opt/wheels "${EXTRAS}" > /opt/wheels/requirements.txt && \
    /opt/uv/bin/uv venv --quiet --python "$(command -v python)" /opt/flipop && \
    /opt/uv/bin/uv pip install --quiet --python /opt/flipop/bin/python --only-binary :all: \
      --require-hashes --constraint requirements/constraints.txt --requirement /opt/wheels/requirements.txt && \
    /opt/flipop/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/flipop/lib && \
    /opt/flipop/bin/flipop version

FROM python:${PYTHON_VERSION}-slim-${DEBIAN_RELEASE}${PYTHON_DIGEST}
ARG VERSION=""
ARG REVISION=""
ARG CREATED=""
LABEL org.opencontainers.image.title="flipop" \
      org.opencontainers.image.description="Keeps floating IPs on healthy Kubernetes nodes, and DNS pointing at them." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.url="https://github.com/flipop/flipop" \
      org.opencontainers.image.source="https://github.com/flipop/flipop" \
      org.opencontainers.image.documentation="https://github.com/flipop/flipop/tree/main/docs" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
COPY --from=build /opt/flipop /opt/flipop
ENV PATH=/opt/flipop/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# A number, so that Kubernetes can tell that it is not root (runAsNonRoot).
USER 65532:65532
WORKDIR /
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["flipop"]
