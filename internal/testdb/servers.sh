#!/usr/bin/env bash
# The database servers of the tests, without touching any server of yours.
#
#   servers.sh setup  KIND   get the programs: what is installed, else Debian's packages
#   servers.sh start  KIND   start a throw-away server, or reuse the one that runs; prints its DSN
#   servers.sh stop   KIND   stop it and delete its data, also under running tests
#   servers.sh status KIND   say what is there
#   servers.sh dsn    KIND   print the DSN of the running server
#   servers.sh wipe   KIND   stop it and delete everything that setup and start have put on the disk
#   servers.sh dir           print the folder in which all this happens
#
# KIND is postgres, mysql, mariadb or all. "setup" is the only command that downloads.
# A server listens on a random port of 127.0.0.1 under a random password, gives up durability for
# speed, keeps its defaults otherwise, and is stopped when no test has used it for two minutes.
#
# Environment:
#   GORMJOBS_TEST_POSTGRES, _MYSQL, _MARIADB   DSN of a server of your own: setup then leaves that kind alone
#   GORMJOBS_TEST_DIR    folder for programs and data; its parents must be open to other users when you are root
#   GORMJOBS_TEST_IDLE   seconds until an unused server is stopped (120)
#   PG_BIN, MYSQLD, MARIADBD   the PostgreSQL bin folder, or the server program, to use
#
# Exit status: 0 done; 3 "start": not installed, "status" and "dsn": not running; else a failure, told on stderr.
set -uo pipefail # no -e: bash ignores it in functions whose result is looked at

# The whole text, for the watcher; the tests run it with bash -c.
self=${BASH_EXECUTION_STRING:-$(cat "$0")}
help() { sed -n '2,/^set -/s/^# \{0,1\}//p' <<<"$self"; }
say() { echo "testdb: $*" >&2; }
die() { say "$*"; exit 1; }

root=$([ "$(id -u)" = 0 ] && echo yes)
if [ -n "${GORMJOBS_TEST_DIR:-}" ]; then home=$GORMJOBS_TEST_DIR
elif [ "$root" ]; then home=/var/cache/gormjobs-test # not below /root: the servers' users could not reach it
else home=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/gormjobs-test; fi
case $home in /*) ;; *) home=$PWD/$home ;; esac

idle=${GORMJOBS_TEST_IDLE:-120}
unset PGDATA PGHOST PGPORT PGUSER PGDATABASE PGPASSWORD PGOPTIONS PGSERVICE
export LC_ALL=C
umask 022
cd /

# use_kind names the files of one server. What belongs to the server's user is below $S, the rest is ours.
use_kind() {
  kind=$1 D=$home/$1 S=$home/$1/server
  mkdir -p "$D" || die "cannot make $D; set GORMJOBS_TEST_DIR"
  [ -O "$D" ] || die "$D belongs to somebody else; set GORMJOBS_TEST_DIR"
}

# --- programs -----------------------------------------------------------------

# PostgreSQL and MySQL refuse to run as root.
set_user() {
  as=()
  [ "$root" ] || return 0
  local wanted=mysql
  [ "$kind" = postgres ] && wanted=postgres
  id "$wanted" >/dev/null 2>&1 || wanted=nobody
  as=(setpriv --reuid="$wanted" --regid="$(id -g "$wanted")" --clear-groups env HOME="$S")
  owner=$wanted
}

# find_server sets server=(command …), basics=(options that its place asks for) and version, or fails.
find_server() {
  server=() basics=()
  case $kind in
  postgres) find_postgres ;;
  mariadb) find_mysqld "${MARIADBD:-}" mariadbd mysqld ;;
  mysql) find_unpacked_mysql || find_mysqld "${MYSQLD:-}" mysqld ;;
  esac
}

find_postgres() {
  local d
  while read -r d; do
    if [ -x "$d/initdb" ] && [ -x "$d/postgres" ]; then
      bin=$d server=("$d/postgres") version=$("$d/postgres" --version)
      return
    fi
  done < <(
    echo "${PG_BIN:-}"
    printf '%s\n' /usr/lib/postgresql/*/bin /usr/pgsql-*/bin | sort -rV
    pg_config --bindir 2>/dev/null || true
    dirname "$(readlink -f "$(command -v initdb || echo /)")"
  )
  return 1
}

# A program called mysqld may be either of the two.
find_mysqld() {
  local name b v
  for name in "$@"; do
    for b in "$name" $(PATH=$PATH:/usr/sbin:/usr/libexec:/usr/local/sbin:/usr/local/mysql/bin type -ap "$name"); do
      [ -n "$b" ] && [ -x "$b" ] && v=$("$b" --no-defaults --version 2>/dev/null) || continue
      case $kind-$v in
      mariadb-*MariaDB*) ;;
      mysql-*MariaDB* | mysql-*"Ver "[1-7].* | mariadb-*) continue ;;
      esac
      server=("$b") version=$v
      return
    done
  done
  return 1
}

# Through its own dynamic linker: the unpacked libraries are newer than the system's.
find_unpacked_mysql() {
  local r=$D/root l
  [ -e "$D/unpacked" ] || return 1
  l=$(dirname "$(ls "$r"/usr/lib/*-linux-gnu*/ld-linux*.so.* | head -n1)")
  server=("$(ls "$l"/ld-linux*.so.*)" --library-path "$l" "$r/usr/sbin/mysqld")
  basics=(--basedir="$r/usr" --plugin-dir="$r/usr/lib/mysql/plugin" --lc-messages-dir="$r/usr/share/mysql"
    --character-sets-dir="$r/usr/share/mysql/charsets")
  version=$("${server[@]}" --no-defaults --version)
}

setup() {
  local given=GORMJOBS_TEST_${kind^^}
  if [ -n "${!given:-}" ]; then say "$kind: $given is set"; return; fi
  exec 8>>"$D/start.lock"
  flock -w 900 8 || die "$kind: somebody else has been at it for 15 minutes"
  if ! find_server; then
    say "$kind: not installed; getting Debian's packages"
    case $kind in
    postgres) apt_install postgresql ;;
    mariadb) apt_install mariadb-server ;;
    mysql) unpack_mysql ;;
    esac || { tail -n 20 "$D/setup.log" >&2; die "$kind: could not be had; install it, or set $given"; }
    find_server || die "$kind: its packages are there, but no server among them"
  fi
  say "$kind: $version"
  exec 8>&-
}

# apt_install leaves no server running: the policy keeps the packages from starting theirs.
apt_install() (
  command -v apt-get >/dev/null || { echo "no apt-get here" >"$D/setup.log"; return 1; }
  [ "$root" ] || { echo "apt-get install $*: only root may" >"$D/setup.log"; return 1; }
  policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
  fi
  export DEBIAN_FRONTEND=noninteractive
  { apt-get -q update && apt-get -q install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"; } \
    >"$D/setup.log" 2>&1 </dev/null 8>&-
)

# unpack_mysql puts MySQL's server and every library it needs into a folder of its own; nothing is installed.
# Debian has MySQL in sid only, so apt gets a list of packages and a state of its own, with the system's mirror.
unpack_mysql() (
  exec 8>&- >"$D/setup.log" 2>&1 </dev/null
  set -x
  key=/usr/share/keyrings/debian-archive-keyring.gpg
  command -v apt-get && [ -e $key ] || { echo "this is no Debian"; return 1; }
  mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null |
    awk '/^(URIs:|deb )/ { for (i = 2; i <= NF; i++) if ($i ~ ":/") { print $i; break } }' |
    grep -v security | grep -m1 '/debian/*$')
  a=$D/apt r=$D/root
  rm -rf "$a" "$r"
  mkdir -p "$a"/{lists/partial,cache/archives/partial,etc} "$r"
  : >"$a/status"
  echo "deb [signed-by=$key] $mirror sid main" >"$a/etc/sources.list"
  cat >"$a/apt.conf" <<CONF
Dir::State "$a"; Dir::State::status "$a/status"; Dir::State::lists "$a/lists"; Dir::Cache "$a/cache";
Dir::Etc::sourcelist "$a/etc/sources.list"; Dir::Etc::sourceparts "-"; Dir::Etc::preferencesparts "-"; Dir::Etc::preferences "-";
APT::Install-Recommends "false"; APT::Sandbox::User "root"; Binary::apt-get::APT::Keep-Downloaded-Packages "true";
Acquire::Retries "3";
CONF
  export APT_CONFIG=$a/apt.conf
  apt-get -q update || return
  cd "$a/cache/archives" || return
  # perl serves only helper scripts, libudev only FIDO logins; mysqld loads nothing of the rest.
  apt-get install -y --print-uris mysql-server-core | awk "/^'/ { sub(/_.*/, \"\", \$2); print \$2 }" |
    grep -Ev '^(perl|libperl|gcc-|libudev|libdb5|libgdbm|libc-gconv)' >"$a/packages"
  grep -q '^mysql-server-core' "$a/packages" || return
  xargs apt-get -q download <"$a/packages" || return
  for f in *.deb; do dpkg-deb --fsys-tarfile "$f" | tar -x -C "$r" --keep-directory-symlink || return; done
  cd /
  rm -rf "$a" "$r"/usr/bin "$r"/usr/share/{doc,man,locale,icu,perl*,bash-completion}
  touch "$D/unpacked"
)

# --- one server ---------------------------------------------------------------

mysql_options() {
  options=(--no-defaults "${basics[@]}" --tmpdir="$S/tmp")
  [ "$kind" = mariadb ] || options+=(--mysqlx=OFF --secure-file-priv=NULL)
}

# pristine makes, once per version, the data folder that every start begins with a copy of.
pristine() {
  [ -e "$S/pristine" ] && [ "$(cat "$D/version" 2>/dev/null)" = "$version" ] && return
  rm -rf "$S"
  mkdir -p "$S/tmp"
  (umask 077; head -c 18 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$D/password"; cat "$D/password" >"$S/password")
  [ -z "$root" ] || chown -R "$owner:" "$S"
  mysql_options
  case $kind in
  postgres)
    local locale=C
    locale -a 2>/dev/null | grep -qixE 'C\.utf-?8' && locale=C.UTF-8
    "${as[@]}" "$bin/initdb" -N -D "$S/new" -U gormjobs --pwfile="$S/password" -A scram-sha-256 -E UTF8 --locale=$locale
    ;;
  mysql) "${as[@]}" "${server[@]}" "${options[@]}" --datadir="$S/new" --initialize-insecure ;;
  mariadb)
    local install
    install=$(command -v mariadb-install-db || command -v mysql_install_db || command -v "$(dirname "${server[0]}")/mariadb-install-db") || return
    "${as[@]}" "$install" --no-defaults --datadir="$S/new" --auth-root-authentication-method=socket --skip-test-db
    ;;
  esac >"$D/init.log" 2>&1 </dev/null 8>&- || { tail -n 20 "$D/init.log" >&2; return 1; }
  mv "$S/new" "$S/pristine"
  echo "$version" >"$D/version"
}

# launch starts the server on a fresh copy of the data, and returns when it answers on $port.
launch() {
  port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000)) # below the ports that systems give to clients
  ! listening || return 1
  rm -rf "$S/data" "$S/tmp"
  cp -a "$S/pristine" "$S/data" || return
  local password ready=listening
  password=$(cat "$D/password")
  local run=("${as[@]}")
  mkdir "$S/tmp"
  case $kind in
  postgres)
    # What is not a default: room for connections, and no durability.
    run+=("${server[@]}" -D "$S/data" -c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories=
      -c max_connections=300 -c fsync=off -c full_page_writes=off)
    ready=postgres_ready
    dsn="postgres://gormjobs:$password@127.0.0.1:$port/postgres?sslmode=disable"
    ;;
  *)
    mysql_options
    cat >"$S/init.sql" <<SQL
CREATE USER IF NOT EXISTS 'gormjobs'@'%' IDENTIFIED BY '$password';
GRANT ALL ON *.* TO 'gormjobs'@'%' WITH GRANT OPTION;
SQL
    [ "$kind" = mariadb ] || echo "ALTER USER 'root'@'localhost' IDENTIFIED BY '$password';" >>"$S/init.sql"
    chmod 600 "$S/init.sql"
    # The same, and no binary log, which MariaDB has not by default either.
    run+=("${server[@]}" "${options[@]}" --datadir="$S/data" --bind-address=127.0.0.1 --port=$port --socket=s
      --pid-file="$S/tmp/pid" --log-error="$S/tmp/log" --init-file="$S/init.sql" --max-connections=300
      --skip-log-bin --innodb-flush-log-at-trx-commit=0)
    dsn="gormjobs:$password@tcp(127.0.0.1:$port)/?parseTime=true"
    ;;
  esac
  [ -z "$root" ] || chown -R "$owner:" "$S/tmp" $(ls "$S/init.sql" 2>/dev/null)
  setsid "${run[@]}" >"$D/server.log" 2>&1 </dev/null 8>&- &
  local pid=$!
  echo $pid >"$D/pid"
  for _ in $(seq 600); do
    kill -0 $pid 2>/dev/null || break
    if $ready; then
      (umask 077; echo "$dsn" >"$D/dsn")
      return 0
    fi
    sleep 0.1
  done
  kill_server $pid
  return 1
}
listening() { (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }
postgres_ready() { listening && grep -q 'ready to accept connections' "$D/server.log"; }

# A pid alone may be anybody's by now.
ours() {
  [ -n "${1:-}" ] || return 1
  if [ -d /proc/self ]; then tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline"; else ps -ww -o args= -p "$1"; fi 2>/dev/null |
    grep -qF "$S/data"
}
alive() {
  local pid
  pid=$(cat "$D/pid" 2>/dev/null) && [ -s "$D/dsn" ] && ours "$pid" || return 1
  port=$(sed 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/' "$D/dsn")
  listening
}

# The data is thrown away, so nothing needs to be flushed. PostgreSQL has children that must hear of it.
kill_server() {
  ours "${1:-}" || return 0
  kill "-$([ "$kind" = postgres ] && echo QUIT || echo KILL)" "$1"
  for _ in $(seq 100); do ours "$1" || return 0; sleep 0.1; done
  kill -KILL "$1"
}

start() {
  exec 8>>"$D/start.lock"
  flock -w 300 8 || die "$kind: somebody else has been starting it for 5 minutes"
  if ! alive; then
    find_server || { say "$kind: no server program found"; exit 3; }
    set_user
    kill_server "$(cat "$D/pid" 2>/dev/null)"
    pristine || die "$kind: cannot make a data folder (more in $D/init.log)"
    # The port may be taken meanwhile.
    launch || launch || launch || {
      tail -n 20 "$D/server.log" "$S/tmp/log" >&2 2>/dev/null || true
      die "$kind: does not start"
    }
  fi
  echo "$self" >"$D/watch.new" && mv "$D/watch.new" "$D/watch.sh"
  setsid bash "$D/watch.sh" watch "$kind" >/dev/null 2>&1 </dev/null 8>&- &
  cat "$D/dsn"
  exec 8>&-
}

stop() {
  exec 8>>"$D/start.lock"
  flock -w 300 8 || die "$kind: somebody else has been starting it for 5 minutes"
  kill_server "$(cat "$D/pid" 2>/dev/null)"
  rm -rf "$D/pid" "$D/dsn" "$S/data" "$S/tmp"
  exec 8>&-
}

# watch stops the server once no process has held use.lock for $idle seconds. Tests hold it, shared, while they
# run, and the kernel takes it from them when they die. One watcher per server; an extra one leaves.
watch() {
  exec 7>>"$D/watch.lock"
  flock -w 15 7 || exit 0
  local unused=0 pid step=$((idle < 5 ? idle : 5))
  while alive; do
    pid=$(cat "$D/pid") || break
    sleep "$step" 7>&-
    exec 9>>"$D/use.lock" || break
    if flock -n 9; then
      unused=$((unused + step))
      # use.lock stays ours until the server is gone: a test that comes now waits, and starts a new one.
      if [ $unused -ge "$idle" ]; then stop; exit 0; fi
      flock -u 9
    else
      unused=0
    fi
  done
  # Somebody may have deleted the folder under a running server.
  kill_server "${pid:-}"
}

status() {
  if alive; then say "$kind: running on port $port, $(cat "$D/version")"; return; fi
  if find_server; then say "$kind: not running, $version"; else say "$kind: not installed"; fi
  return 3
}

dsn() { alive || return 3; cat "$D/dsn"; }

wipe() { stop; rm -rf "$D"; }

cmd=${1:-help}
case $cmd in
help | -h | --help) help; exit ;;
dir) mkdir -p "$home" || exit; echo "$home"; exit ;;
setup | start | stop | status | dsn | wipe | watch) ;;
*) help >&2; exit 2 ;;
esac
case ${2:-} in
all) kinds="postgres mysql mariadb" ;;
postgres | mysql | mariadb) kinds=$2 ;;
*) help >&2; exit 2 ;;
esac
command -v flock >/dev/null && command -v setsid >/dev/null || die "flock and setsid are needed (util-linux)"
code=0
for k in $kinds; do
  # A subshell each: one that fails, and exits, does not keep the others from starting.
  (use_kind "$k"; "$cmd") || code=$?
done
exit $code
