# The image of the programs, for those who build images: make builds the one file
# of its context. docker build -t proctor:local .
#
# Nothing is pulled. Owners and modes of keys/ and control/ are in that file, since
# a volume takes them from here; `make image` loads the same files and the same
# configuration with no builder, and always with the same digest.
FROM scratch
ADD bin/proctor-image-files.tar /
LABEL org.opencontainers.image.title="proctor" \
      org.opencontainers.image.description="Supervisor, reader and first process of agents" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/proctor-project/proctor" \
      org.opencontainers.image.version="0.1.0-dev"
USER 64003:64003
ENTRYPOINT ["/proctor-sidecar"]
