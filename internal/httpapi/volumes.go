package httpapi

import (
	"net/http"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// The work of volumes.
const (
	volumeSteps = 1500 // to make or to remove one with its file system
	listSteps   = 10   // to read the record of one in a list, its use of the disk and its lock
	userSteps   = 50   // to find out whether a sandbox that mounts one lives
)

// createVolume is POST /v1/volumes.
func (a *apiV1) createVolume(w *httpd.Response, r *http.Request) error {
	var req api.VolumeRequest
	release, err := a.readJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	store, err := a.Engine().Volumes()
	if err != nil {
		return err
	}
	if err := w.Afford(volumeSteps); err != nil {
		return err
	}
	request := answer.VolumeRequestOf(&req)
	request.Owner = w.Key
	v, err := store.Create(r.Context(), request)
	if err != nil {
		return gaveUp(r, err)
	}
	return a.WriteStatus(w, http.StatusCreated, answer.NewVolume(v))
}

// listVolumes is GET /v1/volumes.
func (a *apiV1) listVolumes(w *httpd.Response, _ *http.Request) error {
	store, err := a.Engine().Volumes()
	if err != nil {
		return err
	}
	list, err := store.List(w.Key, func(users int) { w.Steps(listSteps + userSteps*users) })
	if err != nil {
		return err
	}
	return a.WriteJSON(w, answer.NewVolumes(list))
}

// getVolume is GET /v1/volumes/{name}.
func (a *apiV1) getVolume(w *httpd.Response, r *http.Request) error {
	store, err := a.Engine().Volumes()
	if err != nil {
		return err
	}
	v, err := store.Find(w.Key, r.PathValue("name"))
	if err != nil {
		return err
	}
	w.Steps(userSteps * len(v.Users))
	return a.WriteJSON(w, answer.NewVolume(v))
}

// deleteVolume is DELETE /v1/volumes/{name}.
func (a *apiV1) deleteVolume(w *httpd.Response, r *http.Request) error {
	store, err := a.Engine().Volumes()
	if err == nil {
		err = w.Afford(volumeSteps)
	}
	if err == nil {
		err = store.Remove(r.Context(), w.Key, r.PathValue("name"))
	}
	return gaveUp(r, done(w, err))
}
