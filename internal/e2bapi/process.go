package e2bapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"syscall"
	"time"

	"connectrpc.com/connect"

	pb "github.com/fumehood-dev/fumehood/internal/e2bapi/generated/process"
	"github.com/fumehood-dev/fumehood/internal/e2bapi/generated/process/processconnect"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// processes serves the processes of a sandbox. Each is a run in the background.
type processes struct {
	processconnect.UnimplementedProcessHandler
}

// tagVariable holds the tag of a process in its metadata.
const tagVariable = "e2b.tag"

// find returns the run of a selector: the one that runs, or else the last one, as the system uses numbers again.
func find(ctx context.Context, by *pb.ProcessSelector) (*engine.Run, error) {
	s := sandboxIn(ctx)
	var found sandbox.ID
	runs := s.Runs()
	callIn(ctx).w.Steps(len(runs) / httpd.StepRuns)
	for _, x := range runs {
		matches := by.GetTag() == "" && by.GetPid() != 0 && uint32(x.PID) == by.GetPid() ||
			by.GetTag() != "" && x.Metadata[tagVariable] == by.GetTag()
		if matches {
			found = x.ID
		}
		if matches && x.Status == sandbox.StatusRunning {
			break
		}
	}
	if found != "" {
		return s.FindRun(found)
	}
	if by.GetTag() != "" {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("process with tag %.100q not found", by.GetTag()))
	}
	return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("process with pid %d not found", by.GetPid()))
}

// Start starts a process and streams its output. It continues if the client leaves.
func (processes) Start(ctx context.Context, r *connect.Request[pb.StartRequest],
	out *connect.ServerStream[pb.StartResponse]) error {
	m := r.Msg
	if m.Process == nil || m.Process.Cmd == "" {
		return connect.NewError(connect.CodeInvalidArgument, errors.New("the process has no command"))
	}
	s := sandboxIn(ctx)
	dir := pathIn(s, m.Process.GetCwd())
	// A server in the background or a terminal has a time limit by default, and must not keep other commands waiting.
	run := engine.RunRequest{Background: true, FreesSlot: true, Request: sandbox.Request{
		Command: append([]string{m.Process.Cmd}, m.Process.Args...), Dir: dir}}
	if m.Pty == nil {
		run.Interactive = m.Stdin == nil || *m.Stdin
	} else {
		run.Terminal = terminalOf(m.Pty)
	}
	run.Request.Env = envOf(m.Process.Envs)
	if m.Tag != nil {
		run.Request.Metadata = map[string]string{tagVariable: *m.Tag}
	}
	// The time limit of the call is that of the process. Over the owner's maximum it has none, as without one: it ends
	// with its sandbox.
	_, most, _ := callIn(ctx).server.Engine().LimitsOf(s.Owner())
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= cmp.Or(most.Timeout, math.MaxInt64) {
		run.Request.Timeout = time.Until(deadline)
	} else {
		run.Detach()
	}
	if m.Process.GetCwd() != "" {
		if info, err := s.Stat(ctx, dir); err != nil || info.Type != sandbox.TypeFolder {
			return connect.NewError(connect.CodeInvalidArgument,
				fmt.Errorf("cwd '%s' does not exist", m.Process.GetCwd()))
		}
	}
	held, err := holdRequest(ctx, &run.Request)
	if err != nil {
		return err
	}
	x, err := s.Start(ctx, run)
	if err != nil {
		held.Release()
		return err
	}
	go func() { // it outlives the call
		<-x.Done()
		held.Release()
	}()
	return follow(ctx, r.Header(), x, 0,
		func(e *pb.ProcessEvent) error { return out.Send(&pb.StartResponse{Event: e}) })
}

// Connect streams the output of a process from now on, as envd does: a client has shown what came before. The end of
// one that has ended is sent again.
func (processes) Connect(ctx context.Context, r *connect.Request[pb.ConnectRequest],
	out *connect.ServerStream[pb.ConnectResponse]) error {
	x, err := find(ctx, r.Msg.Process)
	if err != nil {
		return err
	}
	return follow(ctx, r.Header(), x, x.LastEvent(),
		func(e *pb.ProcessEvent) error { return out.Send(&pb.ConnectResponse{Event: e}) })
}

// follow sends the events of a run after one, and in any case its end.
func follow(ctx context.Context, header http.Header, x *engine.Run, after uint64,
	send func(*pb.ProcessEvent) error) error {
	out := &outgoing{every: keepAliveOf(header), beat: func() error {
		return send(&pb.ProcessEvent{Event: &pb.ProcessEvent_Keepalive{Keepalive: &pb.ProcessEvent_KeepAlive{}}})
	}}
	defer out.keep()()
	event := func(e *pb.ProcessEvent) error { return out.send(func() error { return send(e) }) }
	pid, err := x.Started(ctx)
	if err == nil {
		started := &pb.ProcessEvent_StartEvent{Pid: uint32(pid)}
		err = event(&pb.ProcessEvent{Event: &pb.ProcessEvent_Start{Start: started}})
	}
	if err != nil {
		return err
	}
	terminal := x.Info().Terminal
	in := callIn(ctx)
	return x.FollowIn(ctx, max(after, 1)-1, in.server.RoomForEvents(in.w, largeFactor), func(e engine.Event) error {
		if e.ID <= after && e.Kind != eventlog.Done {
			return nil
		}
		if endedWith(in.sandbox, e) {
			panic(http.ErrAbortHandler)
		}
		wordFailure(in.server, in.w, x, &e)
		if shown := eventOf(e, terminal); shown != nil {
			return event(shown)
		}
		return nil
	})
}

// eventOf returns an event in E2B's form, or nil for one without.
func eventOf(e engine.Event, terminal bool) *pb.ProcessEvent {
	data := func(d *pb.ProcessEvent_DataEvent) *pb.ProcessEvent {
		return &pb.ProcessEvent{Event: &pb.ProcessEvent_Data{Data: d}}
	}
	switch {
	case e.Kind == eventlog.Stdout && terminal:
		return data(&pb.ProcessEvent_DataEvent{Output: &pb.ProcessEvent_DataEvent_Pty{Pty: e.Data}})
	case e.Kind == eventlog.Stdout:
		return data(&pb.ProcessEvent_DataEvent{Output: &pb.ProcessEvent_DataEvent_Stdout{Stdout: e.Data}})
	case e.Kind == eventlog.Stderr:
		return data(&pb.ProcessEvent_DataEvent{Output: &pb.ProcessEvent_DataEvent_Stderr{Stderr: e.Data}})
	case e.Kind == eventlog.Done:
		return &pb.ProcessEvent{Event: &pb.ProcessEvent_End{End: endOf(e.Ended)}}
	}
	return nil
}

// endOf returns the end of a process in the words of Go's os.ProcessState, as envd does.
func endOf(e *engine.Ended) *pb.ProcessEvent_EndEvent {
	end := &pb.ProcessEvent_EndEvent{ExitCode: int32(e.ExitCode), Exited: true,
		Status: fmt.Sprintf("exit status %d", e.ExitCode)}
	switch {
	case e.Failure != "":
		end.ExitCode, end.Exited, end.Status = -1, false, e.Failure
	case e.Signal != 0 && e.Status != sandbox.StatusSucceeded:
		end.ExitCode, end.Exited, end.Status = -1, false, "signal: "+syscall.Signal(e.Signal).String()
	case e.ExitCode < 0:
		end.Exited, end.Status = false, string(e.Status)
	}
	if end.ExitCode != 0 {
		end.Error = &end.Status
	}
	return end
}

// List lists the running processes that clients started.
func (processes) List(ctx context.Context, _ *connect.Request[pb.ListRequest]) (*connect.Response[pb.ListResponse],
	error) {
	out := &pb.ListResponse{}
	for _, x := range sandboxIn(ctx).Runs() {
		if x.Status != sandbox.StatusRunning || x.PID == 0 || len(x.Command) == 0 {
			continue
		}
		info := &pb.ProcessInfo{Pid: uint32(x.PID), Config: &pb.ProcessConfig{Cmd: x.Command[0], Args: x.Command[1:]}}
		tag, ok := x.Metadata[tagVariable]
		if ok {
			info.Tag = &tag
		}
		if err := callIn(ctx).hold(slices.Concat(x.Command, []string{tag})...); err != nil {
			return nil, err
		}
		out.Processes = append(out.Processes, info)
	}
	return connect.NewResponse(out), nil
}

// SendInput writes to the standard input of a process.
func (processes) SendInput(ctx context.Context, r *connect.Request[pb.SendInputRequest]) (
	*connect.Response[pb.SendInputResponse], error) {
	x, err := find(ctx, r.Msg.Process)
	if err == nil {
		err = input(ctx, x, r.Msg.GetInput())
	}
	return connect.NewResponse(&pb.SendInputResponse{}), err
}

// input writes to the standard input or the terminal of a process.
func input(ctx context.Context, x *engine.Run, in *pb.ProcessInput) error {
	_, typed := in.GetInput().(*pb.ProcessInput_Pty)
	if typed != x.Info().Terminal {
		return connect.NewError(connect.CodeInvalidArgument, errors.New("the input is not of the kind of the process"))
	}
	return x.Input(ctx, append(in.GetStdin(), in.GetPty()...), false)
}

// StreamInput writes the messages of a stream to the standard input of a process, which the first one names. A search
// for each message would take a core of the server.
func (processes) StreamInput(ctx context.Context, in *connect.ClientStream[pb.StreamInputRequest]) (
	*connect.Response[pb.StreamInputResponse], error) {
	var x *engine.Run
	w := callIn(ctx).w
	for in.Receive() {
		var err error
		w.Steps(httpd.InputSteps)
		switch m := in.Msg(); {
		case m.GetStart() != nil && x == nil:
			x, err = find(ctx, m.GetStart().Process)
		case m.GetData() != nil && x != nil:
			err = input(ctx, x, m.GetData().GetInput())
		}
		if err != nil {
			return nil, err
		}
	}
	return connect.NewResponse(&pb.StreamInputResponse{}), in.Err()
}

// CloseStdin closes the standard input of a process.
func (processes) CloseStdin(ctx context.Context, r *connect.Request[pb.CloseStdinRequest]) (
	*connect.Response[pb.CloseStdinResponse], error) {
	x, err := find(ctx, r.Msg.Process)
	if err == nil && x.Info().Terminal {
		err = connect.NewError(connect.CodeUnknown, errors.New("a terminal has no stdin to close; type end-of-file"))
	}
	if err == nil {
		err = x.Input(ctx, nil, true)
	}
	return connect.NewResponse(&pb.CloseStdinResponse{}), err
}

// SendSignal sends a signal to a process.
func (processes) SendSignal(ctx context.Context, r *connect.Request[pb.SendSignalRequest]) (
	*connect.Response[pb.SendSignalResponse], error) {
	x, err := find(ctx, r.Msg.Process)
	switch {
	case err != nil:
	case x.Info().Status != sandbox.StatusRunning:
		err = connect.NewError(connect.CodeNotFound, errors.New("the process has ended"))
	case r.Msg.Signal == pb.Signal_SIGNAL_SIGKILL:
		if err = x.Signal(ctx, syscall.SIGKILL); err == nil {
			awaitEnd(ctx, x)
		}
	case r.Msg.Signal == pb.Signal_SIGNAL_SIGTERM:
		err = x.Signal(ctx, syscall.SIGTERM)
	default:
		err = connect.NewError(connect.CodeUnimplemented, errors.New("only SIGKILL and SIGTERM are supported"))
	}
	return connect.NewResponse(&pb.SendSignalResponse{}), err
}

// awaitEnd waits a while for a killed process, so that it is gone when the client asks again. One whose children keep
// its output open ends later.
func awaitEnd(ctx context.Context, x *engine.Run) {
	select {
	case <-x.Done():
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
}

// terminalOf returns the size of a terminal; out of range, it is one that is refused.
func terminalOf(p *pb.PTY) *engine.TerminalSize {
	return &engine.TerminalSize{Rows: uint16(min(p.GetSize().GetRows(), math.MaxUint16)),
		Cols: uint16(min(p.GetSize().GetCols(), math.MaxUint16))}
}

// Update changes the size of a terminal.
func (processes) Update(ctx context.Context, r *connect.Request[pb.UpdateRequest]) (
	*connect.Response[pb.UpdateResponse], error) {
	x, err := find(ctx, r.Msg.Process)
	if err == nil && r.Msg.Pty != nil {
		err = x.Resize(ctx, *terminalOf(r.Msg.Pty))
	}
	return connect.NewResponse(&pb.UpdateResponse{}), err
}
