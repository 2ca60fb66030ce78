package e2bapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"sync"
	"time"

	"connectrpc.com/connect"

	pb "github.com/fumehood-dev/fumehood/internal/e2bapi/generated/filesystem"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/room"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of watchers, whose changes wait here until their client asks for them.
const (
	maxWatchers     = 6        // of one sandbox, which may have 8 queues of inotify(7)
	maxChanges      = 4096     // of one watcher
	maxChangesBytes = 64 << 20 // of all watchers, half of it for one owner
	changeBytes     = 128      // of one change, besides its path
	changeSteps     = 10       // of work for a change whose file is described
)

// Waits for the changes of a watcher. They come on another way than the answers to calls that made them.
const (
	firstChange  = 100 * time.Millisecond
	furtherDelay = 20 * time.Millisecond
)

// errLost tells a client that it must read the folder anew.
var errLost = errors.New("changes were lost, as too many came at once; list the directory")

// watching is a request to watch a folder.
type watching interface {
	GetPath() string
	GetRecursive() bool
	GetIncludeEntry() bool
}

// checkWatch returns the folder of a request to watch it.
func checkWatch(ctx context.Context, r watching) (string, error) {
	dir := pathIn(sandboxIn(ctx), r.GetPath())
	e, err := stat(ctx, dir)
	if err == nil && e.Type != pb.FileType_FILE_TYPE_DIRECTORY {
		err = connect.NewError(connect.CodeInvalidArgument, errors.New("path '"+dir+"' is not a directory"))
	}
	return dir, err
}

var eventTypes = map[engine.ChangeKind]pb.EventType{
	engine.ChangeCreate: pb.EventType_EVENT_TYPE_CREATE, engine.ChangeWrite: pb.EventType_EVENT_TYPE_WRITE,
	engine.ChangeRemove: pb.EventType_EVENT_TYPE_REMOVE, engine.ChangeRename: pb.EventType_EVENT_TYPE_RENAME,
	engine.ChangeMode: pb.EventType_EVENT_TYPE_CHMOD,
}

// changeOf describes a change; with entry also the file, if it still exists.
func changeOf(ctx context.Context, dir string, c engine.Change, entry bool) *pb.FilesystemEvent {
	e := &pb.FilesystemEvent{Name: validText(c.Path), Type: eventTypes[c.Kind]}
	if entry && c.Kind != engine.ChangeRemove && c.Kind != engine.ChangeRename {
		e.Entry, _ = stat(ctx, path.Join(dir, c.Path))
	}
	return e
}

// WatchDir streams the changes below a folder.
func (filesystem) WatchDir(ctx context.Context, r *connect.Request[pb.WatchDirRequest],
	stream *connect.ServerStream[pb.WatchDirResponse]) error {
	dir, err := checkWatch(ctx, r.Msg)
	if err == nil { // for changes that the client has not read
		err = callIn(ctx).server.Reserve(ctx, callIn(ctx).w, engine.FileBuffer)
	}
	if err != nil {
		return err
	}
	out := &outgoing{every: keepAliveOf(r.Header()), beat: func() error {
		return stream.Send(&pb.WatchDirResponse{Event: &pb.WatchDirResponse_Keepalive{
			Keepalive: &pb.WatchDirResponse_KeepAlive{}}})
	}}
	defer out.keep()()
	send := func(m *pb.WatchDirResponse) error {
		return out.send(func() error {
			callIn(ctx).w.Steps(changeSteps)
			return stream.Send(m)
		})
	}
	s := sandboxIn(ctx)
	err = s.Watch(ctx, dir, r.Msg.Recursive, func() {
		_ = send(&pb.WatchDirResponse{Event: &pb.WatchDirResponse_Start{Start: &pb.WatchDirResponse_StartEvent{}}})
	}, func(c engine.Change) error {
		if c.Lost {
			return connect.NewError(connect.CodeDataLoss, errLost)
		}
		e := changeOf(ctx, dir, c, r.Msg.IncludeEntry)
		return send(&pb.WatchDirResponse{Event: &pb.WatchDirResponse_Filesystem{Filesystem: e}})
	})
	if s.Ended() != nil {
		panic(http.ErrAbortHandler) // see endedWith
	}
	return err
}

// watchers are the folders that are watched for clients who ask for the changes.
type watchers struct {
	life   context.Context // ends with the server
	stop   context.CancelFunc
	room   *room.Room // of changes that wait
	moving sync.WaitGroup

	mu   sync.Mutex // guards all below
	byID map[sandbox.ID]*watcher
}

// watcher is one watched folder.
type watcher struct {
	sandbox *engine.Sandbox
	dir     string
	entry   bool // describe the files
	owner   string
	cancel  context.CancelFunc
	room    *room.Room
	again   chan chan struct{} // receives a request to watch again after a loss; closes it when that has begun
	gone    chan struct{}      // closed when the folder is not watched any more

	mu      sync.Mutex // guards all below
	changes []engine.Change
	held    int64 // of the room
	lost    bool
	ended   error
	came    chan struct{} // closed and replaced when something changes

	forgotten bool // it keeps no more changes
}

func newWatchers() *watchers {
	all := &watchers{room: room.Halves(maxChangesBytes), byID: map[sandbox.ID]*watcher{}}
	all.life, all.stop = context.WithCancel(context.Background())
	return all
}

// close ends all watchers. No request may come any more.
func (all *watchers) close() {
	all.stop()
	all.moving.Wait()
}

// CreateWatcher begins to watch a folder.
func (f filesystem) CreateWatcher(ctx context.Context, r *connect.Request[pb.CreateWatcherRequest]) (
	*connect.Response[pb.CreateWatcherResponse], error) {
	dir, err := checkWatch(ctx, r.Msg)
	if err != nil {
		return nil, err
	}
	w := &watcher{sandbox: sandboxIn(ctx), dir: dir, entry: r.Msg.IncludeEntry, owner: callIn(ctx).w.Key,
		room: f.watchers.room, came: make(chan struct{})}
	id := sandbox.NewID()
	if err := f.watchers.begin(ctx, id, w, r.Msg.Recursive); err != nil {
		return nil, err
	}
	return connect.NewResponse(&pb.CreateWatcherResponse{WatcherId: string(id)}), nil
}

// begin returns once the folder is watched, and no change will be missed.
func (all *watchers) begin(ctx context.Context, id sandbox.ID, w *watcher, recursive bool) error {
	life, cancel := context.WithCancel(all.life)
	w.cancel, w.again, w.gone = cancel, make(chan chan struct{}), make(chan struct{})
	ready := make(chan struct{})
	if !all.enter(id, w) {
		cancel() // or the server's context would keep the watcher's
		return &sandbox.Error{Kind: sandbox.Quota, Op: "watch", Fix: "remove one that is no longer needed",
			Msg: fmt.Sprintf("the sandbox has %d watchers, the most that are allowed", maxWatchers)}
	}
	all.moving.Go(func() {
		w.end(w.watch(life, recursive, ready))
		close(w.gone)
		select { // its changes and its end wait for the client, at most as long as the sandbox lives
		case <-life.Done():
		case <-w.sandbox.Done():
		}
		all.forget(id)
	})
	select {
	case <-ready:
		return nil
	case <-w.gone:
	case <-ctx.Done():
		cancel()
		<-w.gone
	}
	all.forget(id)
	return w.failure()
}

// enter adds a watcher, unless its sandbox has too many.
func (all *watchers) enter(id sandbox.ID, w *watcher) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	count := 0
	for _, other := range all.byID {
		if other.sandbox == w.sandbox {
			count++
		}
	}
	if count < maxWatchers {
		all.byID[id] = w
	}
	return count < maxWatchers
}

// forget removes a watcher.
func (all *watchers) forget(id sandbox.ID) {
	all.mu.Lock()
	w := all.byID[id]
	delete(all.byID, id)
	all.mu.Unlock()
	if w != nil {
		w.cancel()
		w.mu.Lock()
		w.forgotten = true
		w.mu.Unlock()
		_, _, release := w.drop()
		release()
	}
}

// find finds a watcher of the sandbox of a call.
func (all *watchers) find(ctx context.Context, id string) (*watcher, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if w := all.byID[sandbox.ID(id)]; w != nil && w.sandbox == sandboxIn(ctx) {
		return w, nil
	}
	return nil, connect.NewError(connect.CodeNotFound, errors.New("watcher not found"))
}

// watch watches the folder and closes ready when it has begun. After a loss it waits until the client knows of that:
// nothing counts the CPU time for changes that nobody gets, and code can make 60,000 a second.
func (w *watcher) watch(ctx context.Context, recursive bool, ready chan struct{}) error {
	for {
		err := w.sandbox.Watch(ctx, w.dir, recursive, func() { close(ready) }, w.take)
		if !errors.Is(err, errLost) {
			return err
		}
		select {
		case ready = <-w.again:
		case <-w.sandbox.Done():
			return w.sandbox.Ended()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// resume watches the folder again after a loss, and returns when no later change will be missed. It also returns if the
// folder is not watched any more, or the client has left: then the next call reports the loss.
func (w *watcher) resume(ctx context.Context) {
	ready := make(chan struct{})
	select {
	case w.again <- ready:
	case <-w.gone:
		return
	case <-ctx.Done():
		w.mu.Lock()
		w.lost = true
		w.mu.Unlock()
		return
	}
	select {
	case <-ready:
	case <-w.gone:
	case <-ctx.Done():
	}
}

// take keeps a change. A loss ends the call of Watch.
func (w *watcher) take(c engine.Change) error {
	if !w.keep(c) {
		return errLost
	}
	return nil
}

// keep keeps a change, or reports that it is lost.
func (w *watcher) keep(c engine.Change) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.wake()
	size := int64(len(c.Path)) + changeBytes
	if w.forgotten || c.Lost || len(w.changes) >= maxChanges || !w.room.Take(w.owner, size) {
		w.lost = true
		return false
	}
	w.changes = append(w.changes, c)
	w.held += size
	return true
}

// wake wakes who waits for changes. The caller holds mu.
func (w *watcher) wake() {
	close(w.came)
	w.came = make(chan struct{})
}

func (w *watcher) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = err
	w.wake()
}

// failure returns why the folder is not watched any more, or nil.
func (w *watcher) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

// drop returns and forgets the changes, and whether others were lost. The caller calls release once it has dropped the
// changes.
func (w *watcher) drop() (changes []engine.Change, lost bool, release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changes, lost = w.changes, w.lost
	held := w.held
	w.changes, w.held, w.lost = nil, 0, false
	return changes, lost, func() { w.room.Give(w.owner, held) }
}

// settle waits until no change is on its way any more.
func (w *watcher) settle(ctx context.Context) error {
	w.mu.Lock()
	pause, came, failure := firstChange, w.came, w.ended
	if len(w.changes) > 0 {
		pause = furtherDelay
	}
	w.mu.Unlock()
	for end := time.Now().Add(firstChange); failure == nil && time.Now().Before(end); {
		select {
		case <-came:
			w.mu.Lock()
			pause, came, failure = furtherDelay, w.came, w.ended
			w.mu.Unlock()
		case <-time.After(pause):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// GetWatcherEvents returns the changes since the last call.
func (f filesystem) GetWatcherEvents(ctx context.Context, r *connect.Request[pb.GetWatcherEventsRequest]) (
	*connect.Response[pb.GetWatcherEventsResponse], error) {
	w, err := f.watchers.find(ctx, r.Msg.WatcherId)
	if err == nil {
		err = w.settle(ctx)
	}
	if err != nil {
		return nil, err
	}
	changes, lost, release := w.drop()
	defer release() // a busy sandbox may take long to describe the files
	switch {
	case lost:
		w.resume(ctx)
		return nil, connect.NewError(connect.CodeDataLoss, errLost)
	case len(changes) == 0 && w.failure() != nil:
		return nil, w.failure()
	}
	out := &pb.GetWatcherEventsResponse{}
	in := callIn(ctx)
	for _, c := range changes {
		in.w.Steps(changeSteps)
		e := changeOf(ctx, w.dir, c, w.entry)
		out.Events = append(out.Events, e)
		err := in.hold(e.Name)
		if err == nil && e.Entry != nil {
			err = in.holdEntry(e.Entry)
		}
		if err != nil {
			return nil, err
		}
	}
	return connect.NewResponse(out), nil
}

// RemoveWatcher ends a watcher.
func (f filesystem) RemoveWatcher(ctx context.Context, r *connect.Request[pb.RemoveWatcherRequest]) (
	*connect.Response[pb.RemoveWatcherResponse], error) {
	if _, err := f.watchers.find(ctx, r.Msg.WatcherId); err != nil {
		return nil, err
	}
	f.watchers.forget(sandbox.ID(r.Msg.WatcherId))
	return connect.NewResponse(&pb.RemoveWatcherResponse{}), nil
}
