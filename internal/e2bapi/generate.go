package e2bapi

//go:generate go install google.golang.org/protobuf/cmd/protoc-gen-go connectrpc.com/connect/cmd/protoc-gen-connect-go
//go:generate protoc --go_out=generated --go_opt=module=github.com/fumehood-dev/fumehood/internal/e2bapi/generated --connect-go_out=generated --connect-go_opt=module=github.com/fumehood-dev/fumehood/internal/e2bapi/generated process.proto filesystem.proto
