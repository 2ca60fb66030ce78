# Finds which commands of a script are not here. The names in the question are words without quotes; those within the code are escaped.
IFS= read -r -d '' question
found=
while [[ $question =~ \"name\":\"([A-Za-z0-9._+-]+)\",\"line\":([0-9]+) ]]; do
	question=${question#*"${BASH_REMATCH[0]}"}
	type -t -- "${BASH_REMATCH[1]}" >/dev/null || found+=,{\"name\":\"${BASH_REMATCH[1]}\",\"line\":${BASH_REMATCH[2]}}
done
printf '{"found":[%s]}' "${found#,}"
