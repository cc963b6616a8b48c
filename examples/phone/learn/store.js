// Keeps recordings, labels and the model in this browser (IndexedDB). Where it may not, they are kept until
// the page is closed.

const NAME = "edgeforest-gestures";
let database = null;

const settled = (request) =>
  new Promise((done, failed) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => failed(request.error);
  });

// Whether this browser keeps anything.
export async function open() {
  try {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("recordings", { keyPath: "number" });
      request.result.createObjectStore("kept");
    };
    database = await settled(request);
  } catch {
    database = null;
  }
  return database !== null;
}

const store = (name, mode = "readwrite") => database.transaction(name, mode).objectStore(name);

export const recordings = async () => (database ? settled(store("recordings", "readonly").getAll()) : []);

export const keep = async (recording) => database && settled(store("recordings").put(recording));

export const forget = async (number) => database && settled(store("recordings").delete(number));

export const get = async (key) => (database ? settled(store("kept", "readonly").get(key)) : undefined);

export const set = async (key, value) => database && settled(store("kept").put(value, key));
