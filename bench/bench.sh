#!/usr/bin/env bash
# Builds the harness and runs it: bench.sh check|full KIND, bench.sh run KIND PEER WORKLOAD [more flags],
# bench.sh tables|chart FILE… See README.md.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export BENCH_DIR=${BENCH_DIR:-/var/tmp/gormjobs-bench}
mkdir -p "$BENCH_DIR"
verb=${1:?check, full, run, tables or chart}
shift
(cd "$here" && go build -o "$BENCH_DIR/bench" .)
# Two peers have their tables' definitions in their modules.
module() { (cd "$here" && go list -m -f '{{.Dir}}' "$1"); }
export GUE_SCHEMA GOQITE_SCHEMA
GUE_SCHEMA=$(module github.com/vgarvardt/gue/v5)/migrations/schema.sql
GOQITE_SCHEMA=$(module maragu.dev/goqite)
case $verb in
check | full)
  kind=${1:?postgres, mysql, mariadb or sqlite}
  shift
  dsn=$("$here/db.sh" start "$kind")
  [ "$verb" = check ] || cd "$here"
  exec "$BENCH_DIR/bench" "$verb" -dsn "$dsn" -server "$("$here/db.sh" pid "$kind")" -rounds "${BENCH_ROUNDS:-3}" "$kind" "$@" ;;
run)
  kind=$1 peer=$2 op=$3
  shift 3
  dsn=$("$here/db.sh" start "$kind")
  exec "$BENCH_DIR/bench" run -peer "$peer" -db "$kind" -dsn "$dsn" -server "$("$here/db.sh" pid "$kind")" -op "$op" "$@" ;;
*) exec "$BENCH_DIR/bench" "$verb" "$@" ;;
esac
