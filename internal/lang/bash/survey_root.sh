# Prints the version, and which common commands exist. Names and versions need no escapes in JSON.
modules=
for name in ar awk base64 bc bunzip2 bzip2 cat cc cmake column comm convert cp curl cut date dd diff dig dot du ed \
  env expr ffmpeg file find fmt gawk gcc git go gpg grep gunzip gzip head hexdump iconv identify install \
  java jq less ln ls lsof make md5sum mkdir mktemp mv mysql nc nl node npm numfmt od openssl pandoc paste \
  patch pdftotext perl php pip3 pr printf ps psql python3 rsync ruby rustc sed seq sha256sum shuf sleep \
  sort split sqlite3 ssh stat strings tac tail tar tee timeout touch tr tree tsort uniq unxz unzip vim wc \
  wget xargs xmllint xxd xz yes yq zip zstd; do
  if type -P "$name" >/dev/null; then modules+="${modules:+,}{\"name\":\"$name\",\"version\":\"\"}"; fi
done
echo "{\"version\":\"${BASH_VERSION%%[^0-9.]*}\",\"standard_library\":false,\"modules\":[$modules]}"
