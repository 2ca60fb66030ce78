import { type CallOptions, Server, type ServerOptions } from "./server.js";
import type { Volume, VolumeList, VolumeRequest } from "./generated/wire.js";

/** Named storage that outlives sandboxes, which mount it by their option volumes. */
export class Volumes {
  readonly #server: Server;

  constructor(options: ServerOptions = {}) {
    this.#server = new Server(options);
  }

  /** Creates a volume. */
  async create(request: VolumeRequest, options: CallOptions = {}): Promise<Volume> {
    return this.#server.json<Volume>("/v1/volumes", { ...options, method: "POST", json: request });
  }

  /** Lists the volumes of the caller, with the sandboxes that use them. */
  async list(options: CallOptions = {}): Promise<Volume[]> {
    return (await this.#server.json<VolumeList>("/v1/volumes", options)).volumes;
  }

  /** Removes a volume that no sandbox uses, with its files. */
  async remove(name: string, options: CallOptions = {}): Promise<void> {
    await this.#server.done(`/v1/volumes/${encodeURIComponent(name)}`, { ...options, method: "DELETE" });
  }
}
