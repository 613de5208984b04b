#!/usr/bin/env bash
# First step of the action: finds the given binary, or downloads a released one and verifies its checksum.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=contrib/action/common.sh
source "$here/common.sh"

if [[ -n $INPUT_BINARY ]]; then
  [[ -f $INPUT_BINARY && -x $INPUT_BINARY ]] ||
    fail "cannot use the binary $INPUT_BINARY: not an executable file"
  directory=$(cd "$(dirname "$INPUT_BINARY")" && pwd)
  set_output binary "$directory/$(basename "$INPUT_BINARY")"
  exit 0
fi

version=$INPUT_VERSION
if [[ -z $version ]]; then
  version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' "$here/../../Cargo.toml")
fi
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+-]*$ ]] ||
  fail "invalid version $version (expected a version such as 1.2.3)"

case $(uname -s)-$(uname -m) in
  Linux-x86_64) target=x86_64-unknown-linux-gnu ;;
  Darwin-arm64) target=aarch64-apple-darwin ;;
  *) fail "no release for $(uname -s) on $(uname -m); build satiety and pass its path as the input binary" ;;
esac

directory=$(mktemp -d "${RUNNER_TEMP:-/tmp}/satiety-install.XXXXXX")
archive=satiety-$target.tar.gz

download() {
  curl --fail --silent --show-error --location --proto-redir '=https' --retry 3 --max-time 600 \
    --output "$directory/$1" -- "$INPUT_RELEASE_URL/v$version/$1" ||
    fail "cannot download $INPUT_RELEASE_URL/v$version/$1"
}

download "$archive"
expected=$INPUT_SHA256
if [[ -z $expected ]]; then
  download SHA256SUMS
  expected=$(awk -v name="$archive" '$2 == name || $2 == "*" name { print $1 }' "$directory/SHA256SUMS")
fi
[[ $expected =~ ^[0-9A-Fa-f]{64}$ ]] || fail "no valid SHA-256 for $archive: $expected"
if command -v sha256sum > /dev/null; then
  actual=$(sha256sum < "$directory/$archive")
else
  actual=$(shasum -a 256 < "$directory/$archive")
fi
actual=${actual%% *}
expected=$(printf '%s' "$expected" | tr 'A-F' 'a-f')
[[ $actual == "$expected" ]] || fail "checksum mismatch of $archive: expected $expected, got $actual"

tar -xzf "$directory/$archive" -C "$directory" "satiety-$target/satiety" ||
  fail "cannot unpack $archive"
set_output binary "$directory/satiety-$target/satiety"
