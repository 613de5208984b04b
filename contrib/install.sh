#!/bin/sh
# Installs the satiety command: downloads the archive of a release, verifies its checksum, copies the program.
#
#   sh install.sh                              the latest release, into ~/.local/bin
#   sh install.sh --version 0.2.0 --to DIR     another release or directory
#
# SATIETY_RELEASES sets another address of the releases, for example of a mirror.
set -eu

releases=${SATIETY_RELEASES:-https://github.com/satiety/satiety/releases}
version=latest
directory=${HOME:-}/.local/bin

fail() {
    printf 'error: %s\n' "$1" >&2
    if [ -n "${2:-}" ]; then
        printf 'hint: %s\n' "$2" >&2
    fi
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --version | --to)
        [ $# -ge 2 ] || fail "$1 needs a value"
        if [ "$1" = --version ]; then version=${2#v}; else directory=$2; fi
        shift 2
        ;;
    -h | --help)
        sed -n '2,7s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *) fail "unknown argument \`$1\`" "sh install.sh --help" ;;
    esac
done

case $(uname -s)/$(uname -m) in
Linux/x86_64 | Linux/amd64) target=x86_64-unknown-linux-gnu ;;
Darwin/arm64) target=aarch64-apple-darwin ;;
*) fail "no release for $(uname -s) on $(uname -m)" "build from source: cargo install --git https://github.com/satiety/satiety satiety-cli" ;;
esac
archive=satiety-$target.tar.gz
if [ "$version" = latest ]; then
    from=$releases/latest/download
else
    from=$releases/download/v$version
fi

if command -v curl >/dev/null; then
    fetch() { curl --fail --silent --show-error --location --retry 3 --output "$2" "$1"; }
elif command -v wget >/dev/null; then
    fetch() { wget --quiet --output-document="$2" "$1"; }
else
    fail "neither curl nor wget is installed"
fi
if command -v sha256sum >/dev/null; then
    hash() { sha256sum "$1"; }
elif command -v shasum >/dev/null; then
    hash() { shasum -a 256 "$1"; }
else
    fail "neither sha256sum nor shasum is installed: the checksum cannot be verified"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
fetch "$from/SHA256SUMS" "$work/SHA256SUMS" || fail "cannot download $from/SHA256SUMS" "check the version and the network"
fetch "$from/$archive" "$work/$archive" || fail "cannot download $from/$archive" "check the version and the network"
expected=$(awk -v name="$archive" '$2 == name || $2 == "*" name { print $1 }' "$work/SHA256SUMS")
[ -n "$expected" ] || fail "SHA256SUMS has no checksum of $archive"
found=$(hash "$work/$archive" | cut -d ' ' -f 1)
[ "$expected" = "$found" ] || fail "the checksum of $archive is wrong: $found, expected $expected" "nothing was installed; download again or report it"

tar -xzf "$work/$archive" -C "$work"
mkdir -p "$directory" || fail "cannot create $directory" "choose another directory: --to DIR"
# A running program cannot be overwritten, but it can be replaced.
cp "$work/satiety-$target/satiety" "$directory/.satiety.new" || fail "cannot write to $directory" "choose another directory: --to DIR"
chmod 755 "$directory/.satiety.new"
mv -f "$directory/.satiety.new" "$directory/satiety"
"$directory/satiety" --version
printf 'Installed in %s. Next: satiety demo\n' "$directory"
case :${PATH:-}: in
*":$directory:"*) ;;
*) printf 'Note: %s is not on your PATH.\n' "$directory" ;;
esac
