package server

import (
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/sandbox"
)

var errNoFiles = &guest.Failed{Kind: sandbox.Unsupported, Msg: "this guest serves no files"}

func (s *Server) stat(*call) error      { return errNoFiles }
func (s *Server) readFile(*call) error  { return errNoFiles }
func (s *Server) writeFile(*call) error { return errNoFiles }
func (s *Server) listDir(*call) error   { return errNoFiles }
func (s *Server) makeDir(*call) error   { return errNoFiles }
func (s *Server) move(*call) error      { return errNoFiles }
func (s *Server) remove(*call) error    { return errNoFiles }
func (s *Server) watch(*call) error     { return errNoFiles }
func (s *Server) pack(*call) error      { return errNoFiles }
func (s *Server) unpack(*call) error    { return errNoFiles }
