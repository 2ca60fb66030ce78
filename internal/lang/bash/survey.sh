# Determines which commands of a script this root lacks. Names in the question have no quotes. Quotes in the code are
# escaped.
IFS= read -r -d '' question
found=
while [[ $question =~ \"name\":\"([A-Za-z0-9._+-]+)\",\"line\":([0-9]+) ]]; do
	question=${question#*"${BASH_REMATCH[0]}"}
	type -t -- "${BASH_REMATCH[1]}" >/dev/null || found+=,{\"name\":\"${BASH_REMATCH[1]}\",\"line\":${BASH_REMATCH[2]}}
done
printf '{"found":[%s]}' "${found#,}"
