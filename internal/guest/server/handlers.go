package server

import "github.com/fumehood-dev/fumehood/internal/guest"

// handler serves one request. It returns once the call is over, and soon after cancellation.
type handler func(*Server, *call) error

// handlerOf lists the requests that this guest serves.
func handlerOf(t guest.Type) handler {
	switch t {
	case guest.TypeHello:
		return (*Server).hello
	case guest.TypeStart:
		return (*Server).start
	case guest.TypeAttach:
		return (*Server).attach
	case guest.TypeInput:
		return (*Server).input
	case guest.TypeAck:
		return (*Server).ack
	case guest.TypeSignal:
		return (*Server).signal
	case guest.TypeResize:
		return (*Server).resize
	case guest.TypeList:
		return (*Server).list
	case guest.TypeWait:
		return (*Server).wait
	case guest.TypeKillAll:
		return (*Server).killAll
	case guest.TypeLease:
		return (*Server).renew
	case guest.TypeReborn:
		return (*Server).reborn
	case guest.TypeHold:
		return (*Server).hold
	case guest.TypeShutdown:
		return (*Server).shutdown
	case guest.TypeDial:
		return (*Server).dial
	}
	return fileHandlerOf(t)
}

func fileHandlerOf(t guest.Type) handler {
	switch t {
	case guest.TypeStat:
		return (*Server).stat
	case guest.TypeReadFile:
		return (*Server).readFile
	case guest.TypeWriteFile:
		return (*Server).writeFile
	case guest.TypeListDir:
		return (*Server).listDir
	case guest.TypeMakeDir:
		return (*Server).makeDir
	case guest.TypeMove:
		return (*Server).move
	case guest.TypeRemove:
		return (*Server).remove
	case guest.TypeWatch:
		return (*Server).watch
	case guest.TypePack:
		return (*Server).pack
	case guest.TypeUnpack:
		return (*Server).unpack
	}
	return nil
}
