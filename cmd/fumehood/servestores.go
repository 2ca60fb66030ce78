package main

import (
	"github.com/fumehood-dev/fumehood/internal/httpapi"
	"github.com/fumehood-dev/fumehood/internal/packages"
)

// openStores returns what a server keeps beside its sandboxes. Its folders are opened for each request, because another
// process may remove or repair them meanwhile.
func (a *app) openStores(f *serveFlags, e *openedEngine) (stores httpapi.Stores, err error) {
	if stores.Templates, err = a.openTemplates(f, e); err != nil {
		return stores, err
	}
	if options := a.backendOptions(); options.Images != "" {
		stores.Images = options.OpenImages
	}
	if f.noPackages {
		return stores, nil
	}
	config, err := a.packageConfig(&f.packages)
	if err == nil && config.Dir != "" {
		stores.Packages = func() (*packages.Cache, error) { return packages.OpenCache(config.Dir) }
	}
	return stores, err
}
