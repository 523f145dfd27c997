# docker build -t plangym-ext . && docker run --rm -it plangym-ext plangym-ext --help
FROM python:3.11-slim

RUN apt-get update && apt-get install -y --no-install-recommends libegl1 && rm -rf /var/lib/apt/lists/*
# "cli,learn" has torch as well.
ARG EXTRAS=cli
COPY . /src
RUN python -m pip install --no-cache-dir -c /src/constraints.txt "/src[${EXTRAS}]" && rm -rf /src

# Compiled code is kept here: mount it to start quickly again.
ENV NUMBA_CACHE_DIR=/cache
VOLUME /cache
WORKDIR /work
CMD ["plangym-ext", "--help"]
