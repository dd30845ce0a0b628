"""The words around the dates, times and prices of the built-in corpus. English: (German, French)."""

SUBJECTS = {
    "vehicle": {
        "the train": ("der/the Zug/train", "le/the train/train"),
        "the bus": ("der/the Bus/bus", "le/the bus/bus"),
        "the tram": ("die/the Straßenbahn/tram", "le/the tramway/tram"),
        "the ship": ("das/the Schiff/ship", "le/the bateau/ship"),
    },
    "event": {
        "the film": ("der/the Film/film", "le/the film/film"),
        "the meeting": ("die/the Besprechung/meeting", "la/the réunion/meeting"),
        "the concert": ("das/the Konzert/concert", "le/the concert/concert"),
        "the party": ("die/the Feier/party", "la/the fête/party"),
    },
    "place": {
        "the shop": ("das/the Geschäft/shop", "le/the magasin/shop"),
        "the museum": ("das/the Museum/museum", "le/the musée/museum"),
        "the bank": ("die/the Bank/bank", "la/the banque/bank"),
        "the library": ("die/the Bibliothek/library", "la/the bibliothèque/library"),
    },
}
CLAUSES = {  # the prefix of a separable German verb comes last
    "vehicle": {
        "{who} leaves {when}": ("{who} fährt/leaves {when} ab/leaves", "{who} part/leaves {when}"),
        "{who} arrives {when}": ("{who} kommt/arrives {when} an/arrives", "{who} arrive/arrives {when}"),
    },
    "event": {
        "{who} begins {when}": ("{who} beginnt/begins {when}", "{who} commence/begins {when}"),
        "{who} ends {when}": ("{who} endet/ends {when}", "{who} se/ends termine/ends {when}"),
    },
    "place": {
        "{who} opens {when}": ("{who} öffnet/opens {when}", "{who} ouvre/opens {when}"),
        "{who} closes {when}": ("{who} schließt/closes {when}", "{who} ferme/closes {when}"),
    },
}
OPEN = {
    "{who} is open {start} to {end}": (
        "{who} ist/is {start} bis/to {end} geöffnet/open",
        "{who} est/is ouvert/open {start} à/to {end}",
    )
}
THINGS = {
    "book": ("das Buch", "le livre"),
    "bag": ("die Tasche", "le sac"),
    "chair": ("der Stuhl", "la chaise"),
    "lamp": ("die Lampe", "la lampe"),
    "car": ("das Auto", "la voiture"),
    "coat": ("der Mantel", "le manteau"),
    "shirt": ("das Hemd", "la chemise"),
    "carpet": ("der Teppich", "le tapis"),
}
COLOURS = {  # German: weak, nominative; French: masculine and feminine
    "red": ("rote", "rouge", "rouge"),
    "green": ("grüne", "vert", "verte"),
    "blue": ("blaue", "bleu", "bleue"),
    "black": ("schwarze", "noir", "noire"),
    "white": ("weiße", "blanc", "blanche"),
}
