#!/bin/sh
# Installs Fumehood {{.Version}} into PREFIX: /usr/local, or ~/.local for an ordinary user. It verifies the digest of the
# archive, and the signature of the digests if this release is signed and minisign is installed.
set -eu

version='{{.Version}}'
url=${FUMEHOOD_URL:-'{{.URL}}'}
key='{{.PublicKey}}'

fail() {
	echo "error: $1" >&2
	exit 1
}

system=$(uname -s | tr '[:upper:]' '[:lower:]')
case $(uname -m) in
x86_64 | amd64) processor=amd64 ;;
aarch64 | arm64) processor=arm64 ;;
*) fail "there is no program for the processor $(uname -m)" ;;
esac
if [ -z "${PREFIX:-}" ]; then
	PREFIX=/usr/local
	[ "$(id -u)" = 0 ] || PREFIX=$HOME/.local
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
archive=fumehood-$version-$system-$processor.tar.gz
for file in SHA256SUMS "$archive"; do
	curl --fail --silent --show-error --location --output "$file" "$url/$file" || fail "cannot download $url/$file"
done
if [ -n "$key" ] && command -v minisign >/dev/null; then
	curl --fail --silent --show-error --location --output SHA256SUMS.minisig "$url/SHA256SUMS.minisig" ||
		fail 'the signature is missing'
	minisign -Vq -P "$key" -m SHA256SUMS || fail 'the signature of SHA256SUMS is wrong'
elif [ -n "$key" ]; then
	echo 'note: minisign is not installed: the digests are compared, but their signature is not verified' >&2
fi
awk -v name="$archive" '$2 == name' SHA256SUMS >wanted
[ -s wanted ] || fail "SHA256SUMS does not list $archive"
if command -v sha256sum >/dev/null; then
	sha256sum -c wanted >/dev/null 2>&1 || fail "the digest of $archive is wrong"
else
	shasum -a 256 -c wanted >/dev/null 2>&1 || fail "the digest of $archive is wrong"
fi
tar -xzf "$archive"
mkdir -p "$PREFIX/bin" "$PREFIX/share"
cp "fumehood-$version-$system-$processor/bin/fumehood" "$PREFIX/bin/fumehood.new"
mv "$PREFIX/bin/fumehood.new" "$PREFIX/bin/fumehood"
cp -R "fumehood-$version-$system-$processor/share/." "$PREFIX/share/"
echo "installed $PREFIX/bin/fumehood; next: fumehood doctor"
