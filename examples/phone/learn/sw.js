// Keeps all files of the folder, so that the page opens without a network. make.py puts the version in,
// which changes with any of the files.
"use strict";

const VERSION = "VERSION";
const PREFIX = `edgeforest-gestures ${self.registration.scope} `;

self.addEventListener("install", (event) => {
  event.waitUntil(
    (async () => {
      const { all } = await (await fetch("files.json", { cache: "no-cache" })).json();
      const cache = await caches.open(PREFIX + VERSION);
      await cache.addAll(["./", ...all].map((name) => new Request(name, { cache: "no-cache" })));
      await self.skipWaiting();
    })(),
  );
});

self.addEventListener("activate", (event) => {
  event.waitUntil(
    (async () => {
      for (const name of await caches.keys()) {
        if (name.startsWith(PREFIX) && name !== PREFIX + VERSION) await caches.delete(name);
      }
      await self.clients.claim();
    })(),
  );
});

self.addEventListener("fetch", (event) => {
  event.respondWith(
    (async () => {
      const cache = await caches.open(PREFIX + VERSION);
      return (await cache.match(event.request, { ignoreSearch: true })) ?? fetch(event.request);
    })(),
  );
});
