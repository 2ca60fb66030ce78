# Pipelines, process substitution, jobs, traps, here documents, and the usual tools.
set -euo pipefail
n=$1
seq 1 2000 | awk -v n="$n" '{ s += $1 * n } END { print s }'
seq 1 300 | xargs -P 4 -n 25 sh -c 'for i; do echo $((i * i)); done' sh | sort -n | sha256sum | cut -c1-16
comm -12 <(seq 1 50 | sort) <(seq $((40 + n)) 90 | sort) | wc -l
for i in 1 2 3 4; do (sleep 0.0$i; echo "job $i" >"job$i") & done
wait
cat job1 job2 job3 job4 | tr '\n' ' '; echo
mkdir -p tree/a/b && echo "$n" >tree/a/b/file
tar cz tree | tar xzO tree/a/b/file
find tree -type f | sed 's/file/found/'
sed "s/x/$n/g" <<END
x and x
END
trap 'echo trapped' EXIT
(exit 3) || echo "status $?"
head -c 300000 /dev/urandom >random && gzip <random | gunzip | cmp - random && echo same
test -c /dev/null && (yes || true) | head -n 3 | tr -d '\n'; echo
