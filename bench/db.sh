#!/usr/bin/env bash
# The database servers of the benchmarks: with their durable defaults (one flush a commit), unlike those of the tests.
#
#   db.sh start  KIND   start it, getting the programs first if they are missing; prints its DSN
#   db.sh stop   KIND   stop it
#   db.sh status KIND   say whether it runs
#   db.sh dsn    KIND   print its DSN
#   db.sh pid    KIND   print its process id
#   db.sh wipe   KIND   stop it and delete its data
#
# KIND is postgres, mysql, mariadb or sqlite (which needs no server: its DSN is the folder). A server listens on
# 127.0.0.1 only, and has no data but the benchmarks'.
#
# Environment:
#   BENCH_DIR   folder for the data and the built harness (/var/tmp/gormjobs-bench); on a disk, not in memory
#   PG_BIN, MYSQLD, MARIADBD   the PostgreSQL bin folder, or the server program, to use
#   DB_EXTRA    more options of the server ("-c x=y", "--x=y")
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${BENCH_DIR:-/var/tmp/gormjobs-bench}
verb=${1:?start|stop|status|dsn|pid|wipe} kind=${2:?postgres|mysql|mariadb|sqlite}
unset PGDATA PGHOST PGPORT PGUSER PGDATABASE PGPASSWORD PGOPTIONS PGSERVICE
export LC_ALL=C

case $kind in
postgres) port=25432 user=postgres ;;
mysql) port=23307 user=mysql ;;
mariadb) port=23306 user=mysql ;;
sqlite) mkdir -p "$dir/sqlite"; case $verb in start | dsn) echo "$dir/sqlite" ;; wipe) rm -rf "$dir/sqlite" ;; pid) echo 0 ;; esac; exit ;;
*) echo "db.sh: no server is called $kind" >&2; exit 2 ;;
esac
D=$dir/$kind data=$D/data log=$D/server.log

# PostgreSQL and MySQL refuse to run as root.
as=()
if [ "$(id -u)" = 0 ]; then
  id "$user" >/dev/null 2>&1 || user=nobody
  as=(setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups env HOME="$D")
else
  user=$(id -un)
fi

up() { (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }
pid() {
  case $kind in
  postgres) head -n1 "$data/postmaster.pid" ;;
  *) cat "$D/run/pid" ;;
  esac
}
dsn() {
  case $kind in
  postgres) echo "postgres://postgres@127.0.0.1:$port/bench?sslmode=disable" ;;
  *) echo "bench:bench@tcp(127.0.0.1:$port)/bench?parseTime=true" ;;
  esac
}

# find sets server=(command …): what is installed, or what the tests have unpacked.
find() {
  local p root
  case $kind in
  postgres)
    for p in "${PG_BIN:-}" $(printf '%s\n' /usr/lib/postgresql/*/bin /usr/pgsql-*/bin | sort -rV) "$(pg_config --bindir 2>/dev/null || true)"; do
      [ -x "$p/initdb" ] && [ -x "$p/postgres" ] && { bin=$p server=("$p/postgres"); return; }
    done ;;
  mariadb)
    for p in "${MARIADBD:-}" $(PATH=$PATH:/usr/sbin:/usr/libexec type -ap mariadbd); do [ -x "$p" ] && { server=("$p") basics=(); return; }; done ;;
  mysql)
    root=$(bash "$here/../internal/testdb/servers.sh" dir)/mysql/root
    if [ -z "${MYSQLD:-}" ] && [ -x "$root/usr/sbin/mysqld" ]; then
      p=$(dirname "$(ls "$root"/usr/lib/*-linux-gnu*/ld-linux*.so.* | head -n1)")
      server=("$(ls "$p"/ld-linux*.so.*)" --library-path "$p" "$root/usr/sbin/mysqld")
      basics=(--basedir="$root/usr" --plugin-dir="$root/usr/lib/mysql/plugin" --lc-messages-dir="$root/usr/share/mysql"
        --character-sets-dir="$root/usr/share/mysql/charsets")
      return
    fi
    for p in "${MYSQLD:-}" $(PATH=$PATH:/usr/sbin:/usr/local/mysql/bin type -ap mysqld); do
      [ -x "$p" ] && ! "$p" --no-defaults --version | grep -q MariaDB && { server=("$p") basics=(); return; }
    done ;;
  esac
  return 1
}

start() {
  if up; then return; fi
  find || { bash "$here/../internal/testdb/servers.sh" setup "$kind" >&2; find; } || { echo "db.sh: no $kind to be had" >&2; exit 1; }
  local p
  mkdir -p "$D/run"; chmod 755 "$dir" "$D"
  [ ${#as[@]} = 0 ] || chown -R "$user" "$D" # all of it: a package installed since may have brought its user
  cd "$D"
  # Not the servers' defaults: a cache and logs that keep checkpoints out of short runs, room for connections, and counters.
  if [ "$kind" = postgres ]; then
    [ -d "$data" ] || "${as[@]}" "$bin/initdb" -D "$data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 >"$D/init.log"
    local c="-c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories=$D/run -c max_connections=300"
    c+=" -c shared_buffers=1GB -c max_wal_size=8GB -c checkpoint_timeout=15min -c shared_preload_libraries=pg_stat_statements"
    c+=" -c fsync=on -c synchronous_commit=on -c full_page_writes=on ${DB_EXTRA:-}"
    "${as[@]}" "$bin/pg_ctl" -D "$data" -l "$log" -w -t 60 -o "$c" start >/dev/null 2>&1 </dev/null
    "$bin/createdb" -h 127.0.0.1 -p $port -U postgres bench >/dev/null 2>&1 || true
    return
  fi
  echo "CREATE DATABASE IF NOT EXISTS bench;" >"$D/account.sql"
  for p in % localhost; do # a statement a line; MariaDB's anonymous account of localhost goes before that of %
    echo "CREATE USER IF NOT EXISTS 'bench'@'$p' IDENTIFIED BY 'bench';"
    echo "GRANT ALL ON *.* TO 'bench'@'$p';"
  done >>"$D/account.sql"
  local options=(--no-defaults "${basics[@]}" --datadir="$data" --bind-address=127.0.0.1 --port=$port --socket="$D/run/s" --pid-file="$D/run/pid"
    --log-error="$log" --max-connections=300 --innodb-buffer-pool-size=3G --innodb-flush-log-at-trx-commit=1 --innodb-doublewrite=ON)
  case $kind in
  mysql)
    options+=(--innodb-redo-log-capacity=2G --sync-binlog=1 --mysqlx=OFF --secure-file-priv=NULL)
    [ -d "$data" ] || "${as[@]}" "${server[@]}" "${options[@]}" --initialize-insecure ;;
  mariadb)
    options+=(--innodb-log-file-size=2G)
    [ -d "$data" ] || "${as[@]}" mariadb-install-db --no-defaults --datadir="$data" --auth-root-authentication-method=normal --skip-test-db >"$D/init.log" 2>&1 ;;
  esac
  setsid "${as[@]}" "${server[@]}" "${options[@]}" --init-file="$D/account.sql" ${DB_EXTRA:-} >/dev/null 2>&1 </dev/null &
  local child=$!
  for _ in $(seq 300); do
    up && return
    kill -0 $child 2>/dev/null || break
    sleep 0.2
  done
  tail -n 20 "$log" >&2
  exit 1
}

stop() {
  up || return 0
  local p
  p=$(pid)
  case $kind in postgres) kill -INT "$p" ;; *) kill "$p" ;; esac
  for _ in $(seq 300); do kill -0 "$p" 2>/dev/null || return 0; sleep 0.2; done
  echo "db.sh: $kind ($p) does not stop" >&2
  return 1
}

case $verb in
start) start; dsn ;;
stop) stop ;;
status) if up; then echo "$kind runs on port $port"; else echo "$kind does not run"; exit 3; fi ;;
dsn) dsn ;;
pid) pid ;;
wipe) stop; rm -rf "$D" ;;
*) echo "db.sh: unknown command $verb" >&2; exit 2 ;;
esac
