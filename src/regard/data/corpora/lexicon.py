"""The words around the dates, times and prices of the built-in corpus. English: (German, French)."""

SUBJECTS = {
    "vehicle": {"train": ("der Zug", "le train"), "bus": ("der Bus", "le bus"),
                "tram": ("die Straßenbahn", "le tramway"), "ship": ("das Schiff", "le bateau")},
    "event": {"film": ("der Film", "le film"), "meeting": ("die Besprechung", "la réunion"),
              "concert": ("das Konzert", "le concert"), "party": ("die Feier", "la fête")},
    "place": {"shop": ("das Geschäft", "le magasin"), "museum": ("das Museum", "le musée"),
              "bank": ("die Bank", "la banque"), "library": ("die Bibliothek", "la bibliothèque")},
}  # fmt: skip
VERBS = {  # the prefix of a separable German verb comes last in its sentence
    "vehicle": {"leaves": ("fährt ab", "part"), "arrives": ("kommt an", "arrive")},
    "event": {"begins": ("beginnt", "commence"), "ends": ("endet", "se termine")},
    "place": {"opens": ("öffnet", "ouvre"), "closes": ("schließt", "ferme")},
}
FRAMES = {
    "at {time}": ("um/at {time}", "à/at {time}"),
    "from {time}": ("von/from {time}", "de/from {time}"),
    "{what} costs {price}": ("{what} kostet/costs {price}", "{what} coûte/costs {price}"),
    "{who} is {open} {start} to {end}":
        ("{who} ist/is {start} bis/to {end} {open}", "{who} est/is {open} {start} à/to {end}"),
}  # fmt: skip
OPEN = {"de": ("geöffnet", "geöffnet"), "fr": ("ouvert", "ouverte")}  # masculine and feminine
THINGS = {
    "book": ("das Buch", "le livre"), "bag": ("die Tasche", "le sac"), "chair": ("der Stuhl", "la chaise"),
    "lamp": ("die Lampe", "la lampe"), "car": ("das Auto", "la voiture"),
    "coat": ("der Mantel", "le manteau"), "shirt": ("das Hemd", "la chemise"),
    "carpet": ("der Teppich", "le tapis"),
}  # fmt: skip
COLOURS = {  # German: weak, nominative; French: masculine and feminine
    "red": ("rote", "rouge", "rouge"), "green": ("grüne", "vert", "verte"),
    "blue": ("blaue", "bleu", "bleue"), "black": ("schwarze", "noir", "noire"),
    "white": ("weiße", "blanc", "blanche"),
}  # fmt: skip
