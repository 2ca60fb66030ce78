package server

import (
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/server/files"
)

// handler serves one request. It returns once the call is over, and soon after cancellation.
type handler func(*Server, *call) error

// handlers are the requests that the guest serves.
var handlers map[guest.Type]handler

func init() { // not an initializer: hello lists them
	handlers = map[guest.Type]handler{
		guest.TypeHello:     (*Server).hello,
		guest.TypeStart:     parsed((*Server).start),
		guest.TypePark:      parsed((*Server).park),
		guest.TypeAttach:    parsed((*Server).attach),
		guest.TypeInput:     parsed((*Server).input),
		guest.TypeAck:       parsed((*Server).ack),
		guest.TypeSignal:    parsed((*Server).signal),
		guest.TypeResize:    parsed((*Server).resize),
		guest.TypeList:      (*Server).list,
		guest.TypeWait:      parsed((*Server).wait),
		guest.TypeKillAll:   (*Server).killAll,
		guest.TypeLease:     parsed((*Server).renew),
		guest.TypeReborn:    parsed((*Server).reborn),
		guest.TypeMemory:    parsed((*Server).limitMemory),
		guest.TypeHold:      (*Server).hold,
		guest.TypeShutdown:  (*Server).shutdown,
		guest.TypeDial:      parsed((*Server).dial),
		guest.TypeStat:      onFiles((*files.Tree).Stat),
		guest.TypeReadFile:  onFiles((*files.Tree).ReadFile),
		guest.TypeWriteFile: onFiles((*files.Tree).WriteFile),
		guest.TypeListDir:   onFiles((*files.Tree).ListDir),
		guest.TypeMakeDir:   onFiles((*files.Tree).MakeDir),
		guest.TypeMove:      onFiles((*files.Tree).Move),
		guest.TypeRemove:    onFiles((*files.Tree).Remove),
		guest.TypeWatch:     onFiles((*files.Tree).Watch),
		guest.TypePack:      onFiles((*files.Tree).Pack),
		guest.TypeUnpack:    onFiles((*files.Tree).Unpack),
	}
}

// request is a pointer to a request's message.
type request[T any] interface {
	*T
	guest.Message
}

// parsed returns a handler that parses the request for serve.
func parsed[T any, M request[T]](serve func(*Server, *call, M) error) handler {
	return func(s *Server, c *call) error {
		m := M(new(T))
		if guest.Parse(c.body, m) != nil {
			return errMalformed
		}
		return serve(s, c, m)
	}
}

// onFiles returns a handler for a file call, which returns its last message.
func onFiles[T any, M request[T]](serve func(*files.Tree, M, files.Call) (guest.Message, error)) handler {
	return parsed(func(s *Server, c *call, m M) error {
		answer, err := serve(s.files, m, c)
		if err != nil {
			return err
		}
		return c.answer(answer)
	})
}
