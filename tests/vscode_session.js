"use strict";
// Drives the extension as VS Code does, with the parts of VS Code's interface that it uses.  Arguments: the extension's folder and a
// configuration as JSON.  Requests are read as JSON lines; what the adapter sends is written as JSON lines.
const Module = require("module");
const path = require("path");
const readline = require("readline");

class EventEmitter {
  constructor() {
    this.listeners = [];
    this.event = (listener) => { this.listeners.push(listener); };
  }
  fire(message) { this.listeners.forEach((listener) => listener(message)); }
}
const registered = {};
const vscode = {
  EventEmitter,
  DebugAdapterInlineImplementation: class { constructor(implementation) { this.implementation = implementation; } },
  debug: {
    registerDebugConfigurationProvider: (type, provider) => { registered.provider = provider; return { type }; },
    registerDebugAdapterDescriptorFactory: (type, factory) => { registered.factory = factory; return { type }; },
  },
  window: { activeTextEditor: undefined, showErrorMessage: (text) => Promise.resolve(text) },
};
const load = Module._load;
Module._load = (request, ...rest) => (request === "vscode" ? vscode : load(request, ...rest));

const [folder, text] = process.argv.slice(2);
const manifest = require(path.join(folder, "package.json"));
require(path.join(folder, manifest.main)).activate({ subscriptions: [] });
const configuration = registered.provider.resolveDebugConfiguration(undefined, JSON.parse(text));
const adapter = registered.factory.createDebugAdapterDescriptor({ configuration }).implementation;
adapter.onDidSendMessage((message) => console.log(JSON.stringify(message)));
const lines = readline.createInterface({ input: process.stdin });
lines.on("line", (line) => adapter.handleMessage(JSON.parse(line)));
lines.on("close", () => { adapter.dispose(); });
